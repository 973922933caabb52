-- Give a ticket to a transaction that was overtaken too often: until the ticket ends, no transaction with a later ticket or
-- none changes what it reads. Return the ticket.
-- KEYS[1]: the clock's key. ARGV: tag, the transaction's name, its ticket ("" for a new one), the names that it reads, the
-- microseconds for which the ticket lasts.
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000000 + tonumber(t[2])
local ticket = now
if ARGV[3] ~= '' then ticket = tonumber(ARGV[3]) end
redis.call('HSET', ARGV[1] .. 'turn', ARGV[2], cmsgpack.pack({ticket, now + tonumber(ARGV[5]), cmsgpack.unpack(ARGV[4])}))
redis.call('ZADD', ARGV[1] .. 'v', now + tonumber(ARGV[5]), '\1t')  -- the moment until which there may be tickets
redis.call('PEXPIRE', ARGV[1] .. 'turn', 60000)
return string.format('%.0f', ticket)
