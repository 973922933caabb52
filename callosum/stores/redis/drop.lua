-- Delete entries that were copied, with the actions that they opened, unless such an action is live again, its call is
-- still remembered, or it was reported meanwhile. Return the number of deleted entries.
-- KEYS[1]: the clock's key. ARGV: tag, then for each entry: id, session of its action ("" if it opened none), identity of
-- its call, moment of its report; last, 1 or 0.
local tag, deleted = ARGV[1], 0
for i = 2, #ARGV - 1, 4 do
  local id, session, call = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local wanted = redis.call('ZSCORE', tag .. 'open', id)
  if not wanted and call ~= '' then wanted = redis.call('ZSCORE', tag .. 'calls', call) end
  if not wanted and session ~= '' then
    local blob = redis.call('HGET', tag .. 'a', id)
    if blob then
      local _, ended = state_of(blob)
      wanted = ended ~= tonumber(ARGV[i + 3])
    end
  end
  if not wanted then
    deleted = deleted + redis.call('XDEL', tag .. 'log', id)
    if session ~= '' then
      redis.call('HDEL', tag .. 'a', id)
      redis.call('ZREM', tag .. 'ids', id)
      redis.call('ZREM', tag .. 't:' .. session, id)
      redis.call('ZREM', tag .. 'u:' .. session, id)
    end
  end
end
return deleted
