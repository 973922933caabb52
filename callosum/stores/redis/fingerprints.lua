-- Forgets the oldest digests, of acts that no look-back reaches; one without an outcome is found until it has one.
-- KEYS[1] the clock. ARGV: tag, the moment before which nothing counts, how many to go past, how many to look at, 1 or 0
-- last. Answers how many it looked at, and how many went.
local tag, horizon = ARGV[1], tonumber(ARGV[2])
local old = redis.call('ZRANGEBYSCORE', tag .. 'prints', '-inf', '(' .. ARGV[2], 'LIMIT', ARGV[3], ARGV[4])
local gone, ids, names, members = 0, {}, {}, {}
for i, place in ipairs(old) do
  local bar = string.find(place, '\0', 1, true)
  names[i], members[i] = string.sub(place, 1, bar - 1), string.sub(place, bar + 1)
  ids[i] = string.match(members[i], '^%x*:(%d+):')
end
local blobs = #ids > 0 and redis.call('HMGET', tag .. 'a', unpack(ids)) or {}
for i, place in ipairs(old) do
  local kept = false
  if blobs[i] then
    kept = dated(ids[i], blobs[i]) >= horizon or redis.call('ZSCORE', tag .. 'open', ids[i])
  end
  if not kept then
    gone = gone + 1
    redis.call('ZREM', tag .. 'prints', place)
    redis.call('ZREM', tag .. 'p:' .. names[i], members[i])
  end
end
return {#old, gone}
