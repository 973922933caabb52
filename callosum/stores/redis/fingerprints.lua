-- Delete the oldest fingerprints, of actions that no window reaches; an action without an outcome keeps its own.
-- KEYS[1]: the clock's key. ARGV: tag, the moment before which nothing counts, the number of fingerprints to skip, the number
-- to examine; last, 1 or 0. Return how many were examined and how many were deleted.
local tag, horizon = ARGV[1], tonumber(ARGV[2])
local old = redis.call('ZRANGEBYSCORE', tag .. 'prints', '-inf', '(' .. ARGV[2], 'LIMIT', ARGV[3], ARGV[4])
local deleted, ids, names, members = 0, {}, {}, {}
for i, member in ipairs(old) do
  local bar = string.find(member, '\0', 1, true)
  names[i], members[i] = string.sub(member, 1, bar - 1), string.sub(member, bar + 1)
  ids[i] = string.match(members[i], '^%x*:(%d+):')
end
local blobs = #ids > 0 and redis.call('HMGET', tag .. 'a', unpack(ids)) or {}
for i, member in ipairs(old) do
  local kept = false
  if blobs[i] then
    kept = dated(ids[i], blobs[i]) >= horizon or redis.call('ZSCORE', tag .. 'open', ids[i])
  end
  if not kept then
    deleted = deleted + 1
    redis.call('ZREM', tag .. 'prints', member)
    redis.call('ZREM', tag .. 'p:' .. names[i], members[i])
  end
end
return {#old, deleted}
