-- Return the moment that an entry would get now, the last moment that was used, and journal entries of a namespace.
-- KEYS[1]: the clock's key. ARGV: tag, now ("" for the server's clock), from, to, number of entries, 1 for newest first.
local now = tonumber(ARGV[2])
if not now then
  local t = redis.call('TIME')
  now = tonumber(t[1]) * 1000000 + tonumber(t[2])
end
local last = tonumber(redis.call('GET', KEYS[1]) or '0')
if now <= last then now = last + 1 end
local entries
if ARGV[6] == '1' then
  entries = redis.call('XREVRANGE', ARGV[1] .. 'log', ARGV[4], ARGV[3], 'COUNT', ARGV[5])
else
  entries = redis.call('XRANGE', ARGV[1] .. 'log', ARGV[3], ARGV[4], 'COUNT', ARGV[5])
end
return {string.format('%016.0f', now), string.format('%016.0f', last), entries}
