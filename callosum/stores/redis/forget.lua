-- Delete what an inactive session knew of keys and did on them, unless it can still matter: an action without an outcome, an
-- action within a window, or a change of a key that an active session read before. A session with nothing left is deleted.
-- KEYS[1]: the clock's key. ARGV: tag, session, the moment before which nothing counts, keys ...; last, 1 or 0. Return the
-- number of keys that were deleted.
local tag, session, horizon, deleted = ARGV[1], ARGV[2], tonumber(ARGV[3]), 0

local held = {}  -- the keys of actions without an outcome
local waiting = redis.call('ZRANGE', tag .. 'h:' .. session, 0, -1)
for _, blob in ipairs(records(tag, waiting)) do
  if blob then
    local action = cmsgpack.unpack(string.sub(blob, 7, 6 + tonumber(string.sub(blob, 1, 6))))
    for _, name in ipairs(action[2]) do held[name] = true end
  end
end

-- Return whether another active session read a key before a change.
local function read_before(name, changed)
  local reads = oldest_reads(tag, marks(tag, name), horizon)
  return another(reads, session, function(at) return at < changed end)
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
    kept = changed >= horizon or read_before(name, changed)
  end
  if not kept then
    deleted = deleted + 1
    redis.call('HDEL', tag .. 'm:' .. name, session)
    redis.call('ZREM', tag .. 'c:' .. name, session)
    redis.call('ZREM', tag .. 'sk:' .. session, name)
    if redis.call('EXISTS', tag .. 'c:' .. name) == 0 then
      redis.call('ZREM', tag .. 'names', name)
      redis.call('ZREM', tag .. 'chg', name)
    end
  end
end
if redis.call('EXISTS', tag .. 'sk:' .. session) == 0 and not is_active(tag, session, horizon) then
  redis.call('ZREM', tag .. 'seen', session)
  redis.call('DEL', tag .. 's:' .. session, tag .. 'u:' .. session)
end
return deleted
