-- Removes entries that were copied, with the actions they opened, unless those are live again, still remembered, or were
-- reported meanwhile.
-- KEYS[1] the clock. ARGV: tag, then for each entry: id, session of its action ("" if it opened none), its call's
-- identity, the moment of its report; 1 or 0 last.
local tag, gone = ARGV[1], 0
for i = 2, #ARGV - 1, 4 do
  local id, session, call = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local wanted = redis.call('ZSCORE', tag .. 'open', id)
  if not wanted and call ~= '' then wanted = redis.call('ZSCORE', tag .. 'calls', call) end
  if not wanted and session ~= '' then
    local blob = redis.call('HGET', tag .. 'a', id)
    if blob then
      local _, ended = act(blob)
      wanted = ended ~= tonumber(ARGV[i + 3])
    end
  end
  if not wanted then
    gone = gone + redis.call('XDEL', tag .. 'log', id)
    if session ~= '' then
      redis.call('HDEL', tag .. 'a', id)
      redis.call('ZREM', tag .. 'ids', id)
      redis.call('ZREM', tag .. 't:' .. session, id)
      redis.call('ZREM', tag .. 'u:' .. session, id)
    end
  end
end
return gone
