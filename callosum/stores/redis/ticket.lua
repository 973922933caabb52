-- Puts a transaction that was overtaken too often in line: until its turn is over, nobody who came later changes
-- what it looks at. KEYS[1] the clock. ARGV: tag, its name, its ticket ("" for a new one), names looked at, microseconds.
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000000 + tonumber(t[2])
local ticket = now
if ARGV[3] ~= '' then ticket = tonumber(ARGV[3]) end
redis.call('HSET', ARGV[1] .. 'turn', ARGV[2], cmsgpack.pack({ticket, now + tonumber(ARGV[5]), cmsgpack.unpack(ARGV[4])}))
redis.call('ZADD', ARGV[1] .. 'v', now + tonumber(ARGV[5]), '\1t')  -- until when there may be turns
redis.call('PEXPIRE', ARGV[1] .. 'turn', 60000)
return string.format('%.0f', ticket)
