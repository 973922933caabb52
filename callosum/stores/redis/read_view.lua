-- Read everything that some scopes need (see view.lua), without changing anything.
-- KEYS[1]: the clock's key. ARGV[1], in MessagePack: tag, now ("" for the server's clock), number of newest actions per key,
-- scopes.
local request = cmsgpack.unpack(ARGV[1])
return views(request[1], KEYS[1], request[2], request[3], request[4])
