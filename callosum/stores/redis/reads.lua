-- Which sessions read a key and which changed it: functions for the scripts that delete. They need evidence.lua.

-- Return the records of these actions, false for a missing one.
local function records(tag, ids)
  local found = {}
  for from = 1, #ids, 1000 do
    for _, blob in ipairs(redis.call('HMGET', tag .. 'a', unpack(ids, from, math.min(#ids, from + 999)))) do
      found[#found + 1] = blob
    end
  end
  return found
end

local function is_active(tag, session, horizon)
  return tonumber(redis.call('ZSCORE', tag .. 'seen', session) or '0') >= horizon
end

local function finished(blob)
  local state, ended, expires = state_of(blob)
  return state == 'done' and ended > 0 and ended <= expires
end

-- Return for each session that knows a key {session, its last read, its newest action's id, that action's record}; 0, ''
-- and false for none.
local function marks(tag, name)
  local all, found, with_action, ids = redis.call('HGETALL', tag .. 'm:' .. name), {}, {}, {}
  for at = 1, #all, 2 do
    local newest, read = string.match(all[at + 1], '^(%d*)[%d,]*;(%d+);')
    local mark = {all[at], tonumber(read or '0'), newest or '', false}
    found[#found + 1] = mark
    if mark[3] ~= '' then with_action[#with_action + 1] = mark; ids[#ids + 1] = mark[3] end
  end
  for i, blob in ipairs(records(tag, ids)) do with_action[i][4] = blob end
  return found
end

-- Return the oldest reads of a key by active sessions, as {moment, session} of two at most: with two, one of them is always
-- another session's. A write that was finished in time counts as a read, from its start.
local function oldest_reads(tag, marks, horizon)
  local reads, found = {}, {}
  for _, mark in ipairs(marks) do
    local at = mark[2]
    if mark[4] and finished(mark[4]) and (at == 0 or tonumber(mark[3]) < at) then at = tonumber(mark[3]) end
    if at > 0 then reads[#reads + 1] = {at, mark[1]} end
  end
  table.sort(reads, function(a, b) return a[1] < b[1] end)
  for _, read in ipairs(reads) do
    if is_active(tag, read[2], horizon) then found[#found + 1] = read end
    if #found == 2 then break end
  end
  return found
end

-- Return whether another session has a moment that passes a test.
local function another(moments, session, passes)
  for _, item in ipairs(moments) do
    if item[2] ~= session and passes(item[1]) then return true end
  end
  return false
end
