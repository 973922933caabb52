-- Which acts of long ago matter still on a key: as a change, while another session that goes on looked before it; as
-- a look, which a finished write is, while its own session goes on and another changed the key since. Just a session's
-- newest act can. It changes nothing.
-- KEYS[1] the clock. ARGV: tag, the moment since which a session goes on, then key, session and id of each; 1 or 0 last.
-- Answers 1 or 0 for each.
local tag, horizon, answers, known = ARGV[1], tonumber(ARGV[2]), {}, {}

local function all_of(name)
  if not known[name] then
    local all = marks(tag, name)
    known[name] = {all, oldest_looks(tag, all, horizon)}
  end
  return known[name]
end

-- The newest changes of a key, {moment, who} of two sessions at most; one without an outcome is still to come.
local function newest_changes(one)
  if not one[3] then
    local changes = {}
    for _, mark in ipairs(one[1]) do
      if mark[4] then
        local state, at = act(mark[4]), dated(mark[3], mark[4])
        if state == 'open' or state == 'unknown' then at = math.huge end
        changes[#changes + 1] = {at, mark[1]}
      end
    end
    table.sort(changes, function(a, b) return a[1] > b[1] end)
    one[3] = {changes[1], changes[2]}
  end
  return one[3]
end

local function needed(name, session, id)
  if redis.call('HLEN', tag .. 'm:' .. name) < 2 then return false end  -- nobody else was there
  local newest = string.match(redis.call('HGET', tag .. 'm:' .. name, session) or '', '^%d+')
  local blob = newest == id and redis.call('HGET', tag .. 'a', id)
  if not blob then return false end
  local one = all_of(name)
  local changed = math.max(dated(id, blob), tonumber(redis.call('ZSCORE', tag .. 'c:' .. name, session) or '0'))
  if another(one[2], session, function(at) return at < changed end) then return true end
  return finished(blob) and goes_on(tag, session, horizon)
    and another(newest_changes(one), session, function(at) return at > tonumber(id) end)
end

for i = 3, #ARGV - 1, 3 do
  answers[#answers + 1] = needed(ARGV[i], ARGV[i + 1], ARGV[i + 2]) and 1 or 0
end
return answers
