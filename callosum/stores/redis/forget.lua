-- Forgets what a session knew and did on keys, unless somebody's older look makes it matter still.
-- KEYS[1] the clock. ARGV: tag, session, keys ..., 1 or 0 last. Answers how many went.
local tag, session, gone = ARGV[1], ARGV[2], 0
for i = 3, #ARGV - 1 do
  local name = ARGV[i]
  local changed = tonumber(redis.call('ZSCORE', tag .. 'c:' .. name, session) or '0')
  local kept = false
  if changed > 0 then
    local all = redis.call('HGETALL', tag .. 'm:' .. name)
    for at = 1, #all, 2 do
      local read = tonumber(string.match(all[at + 1], '^[%d,]*;(%d+);') or '0')
      if all[at] ~= session and read > 0 and read < changed then kept = true end
    end
  end
  if not kept then
    gone = gone + 1
    redis.call('HDEL', tag .. 'm:' .. name, session)
    redis.call('ZREM', tag .. 'c:' .. name, session)
    redis.call('ZREM', tag .. 'sk:' .. session, name)
    if redis.call('EXISTS', tag .. 'c:' .. name) == 0 then
      redis.call('ZREM', tag .. 'names', name)
      redis.call('ZREM', tag .. 'chg', name)
    end
  end
end
return gone
