-- Journal entries of a namespace, the moment that an entry could get now, and the last that was taken.
-- KEYS[1] the clock. ARGV: tag, now ("" for the server's clock), from, to, how many, 1 for newest first.
local now = tonumber(ARGV[2])
if not now then
  local t = redis.call('TIME')
  now = tonumber(t[1]) * 1000000 + tonumber(t[2])
end
local last = tonumber(redis.call('GET', KEYS[1]) or '0')
if now <= last then now = last + 1 end
local found
if ARGV[6] == '1' then
  found = redis.call('XREVRANGE', ARGV[1] .. 'log', ARGV[4], ARGV[3], 'COUNT', ARGV[5])
else
  found = redis.call('XRANGE', ARGV[1] .. 'log', ARGV[3], ARGV[4], 'COUNT', ARGV[5])
end
return {string.format('%016.0f', now), string.format('%016.0f', last), found}
