-- Forgets what a session that is gone knew and did on keys, unless it matters still: it has no outcome yet, others may
-- look back so far, or somebody who goes on looked before it. Who has nothing left to forget is forgotten too.
-- KEYS[1] the clock. ARGV: tag, session, the moment before which nothing counts, keys ..., 1 or 0 last. Answers how many
-- keys went.
local tag, session, horizon, gone = ARGV[1], ARGV[2], tonumber(ARGV[3]), 0

local held = {}  -- the keys of what has no outcome
local waiting = redis.call('ZRANGE', tag .. 'h:' .. session, 0, -1)
for _, blob in ipairs(records(tag, waiting)) do
  if blob then
    local mine = cmsgpack.unpack(string.sub(blob, 7, 6 + tonumber(string.sub(blob, 1, 6))))
    for _, name in ipairs(mine[2]) do held[name] = true end
  end
end

-- Whether another session that goes on looked before a change.
local function looked(name, changed)
  local looks = oldest_looks(tag, marks(tag, name), horizon)
  return another(looks, session, function(at) return at < changed end)
end

for i = 4, #ARGV - 1 do
  local name = ARGV[i]
  local kept = held[name] ~= nil
  local changed = tonumber(redis.call('ZSCORE', tag .. 'c:' .. name, session) or '0')
  if changed > 0 and not kept then
    local ids = {}
    local known = redis.call('HGET', tag .. 'm:' .. name, session) or ''
    for id in string.gmatch(string.match(known, '^([%d,]*);') or '', '%d+') do ids[#ids + 1] = id end
    for at, blob in ipairs(records(tag, ids)) do
      if blob then changed = math.max(changed, dated(ids[at], blob)) end
    end
    kept = changed >= horizon or looked(name, changed)
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
if redis.call('EXISTS', tag .. 'sk:' .. session) == 0 and not goes_on(tag, session, horizon) then
  redis.call('ZREM', tag .. 'seen', session)
  redis.call('DEL', tag .. 's:' .. session, tag .. 'u:' .. session)
end
return gone
