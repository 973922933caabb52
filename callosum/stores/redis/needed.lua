-- Return which old actions still matter on a key, without changing anything. Only a session's newest action can matter: as a
-- change, while another active session read the key before it; or as a read, which a finished write is, while its own session
-- is active and another session changed the key since.
-- KEYS[1]: the clock's key. ARGV: tag, the moment since which a session is active, then key, session and id of each action;
-- last, 1 or 0. Return 1 or 0 for each action.
local tag, horizon, answers, known = ARGV[1], tonumber(ARGV[2]), {}, {}

local function all_of(name)
  if not known[name] then
    local all = marks(tag, name)
    known[name] = {all, oldest_reads(tag, all, horizon)}
  end
  return known[name]
end

-- Return the newest changes of a key, as {moment, session} of two sessions at most. A change without an outcome counts as
-- later than all others.
local function newest_changes(data)
  if not data[3] then
    local changes = {}
    for _, mark in ipairs(data[1]) do
      if mark[4] then
        local state, at = state_of(mark[4]), dated(mark[3], mark[4])
        if state == 'open' or state == 'unknown' then at = math.huge end
        changes[#changes + 1] = {at, mark[1]}
      end
    end
    table.sort(changes, function(a, b) return a[1] > b[1] end)
    data[3] = {changes[1], changes[2]}
  end
  return data[3]
end

local function needed(name, session, id)
  if redis.call('HLEN', tag .. 'm:' .. name) < 2 then return false end  -- no other session knows the key
  local newest = string.match(redis.call('HGET', tag .. 'm:' .. name, session) or '', '^%d+')
  local blob = newest == id and redis.call('HGET', tag .. 'a', id)
  if not blob then return false end
  local data = all_of(name)
  local changed = math.max(dated(id, blob), tonumber(redis.call('ZSCORE', tag .. 'c:' .. name, session) or '0'))
  if another(data[2], session, function(at) return at < changed end) then return true end
  return finished(blob) and is_active(tag, session, horizon)
    and another(newest_changes(data), session, function(at) return at > tonumber(id) end)
end

for i = 3, #ARGV - 1, 3 do
  answers[#answers + 1] = needed(ARGV[i], ARGV[i + 1], ARGV[i + 2]) and 1 or 0
end
return answers
