-- Looks at all that some scopes need (view.lua), without changing anything.
-- KEYS[1] the clock. ARGV[1], in MessagePack: tag, now ("" for the server's clock), how many newest a key shows, scopes.
local asked = cmsgpack.unpack(ARGV[1])
return views(asked[1], KEYS[1], asked[2], asked[3], asked[4])
