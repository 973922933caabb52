-- Who looked at a key and who changed it: functions for the scripts that forget, behind acts.lua.

-- The actions with these ids, false for one that is gone.
local function records(tag, ids)
  local found = {}
  for from = 1, #ids, 1000 do
    for _, blob in ipairs(redis.call('HMGET', tag .. 'a', unpack(ids, from, math.min(#ids, from + 999)))) do
      found[#found + 1] = blob
    end
  end
  return found
end

local function goes_on(tag, who, horizon)
  return tonumber(redis.call('ZSCORE', tag .. 'seen', who) or '0') >= horizon
end

local function finished(blob)
  local state, ended, expires = act(blob)
  return state == 'done' and ended > 0 and ended <= expires
end

-- What all sessions know of a key: {who, the last look, the newest act's id, its record} each, 0 and '' for none.
local function marks(tag, name)
  local all, found, acts, ids = redis.call('HGETALL', tag .. 'm:' .. name), {}, {}, {}
  for at = 1, #all, 2 do
    local newest, read = string.match(all[at + 1], '^(%d*)[%d,]*;(%d+);')
    local mark = {all[at], tonumber(read or '0'), newest or '', false}
    found[#found + 1] = mark
    if mark[3] ~= '' then acts[#acts + 1] = mark; ids[#ids + 1] = mark[3] end
  end
  for i, blob in ipairs(records(tag, ids)) do acts[i][4] = blob end
  return found
end

-- The oldest looks at a key by sessions that go on, {moment, who} of two at most: enough to tell whether another one's
-- is older than something. An own write that was finished in time is a look too, as of its intercept.
local function oldest_looks(tag, marks, horizon)
  local looks, found = {}, {}
  for _, mark in ipairs(marks) do
    local at = mark[2]
    if mark[4] and finished(mark[4]) and (at == 0 or tonumber(mark[3]) < at) then at = tonumber(mark[3]) end
    if at > 0 then looks[#looks + 1] = {at, mark[1]} end
  end
  table.sort(looks, function(a, b) return a[1] < b[1] end)
  for _, look in ipairs(looks) do
    if goes_on(tag, look[2], horizon) then found[#found + 1] = look end
    if #found == 2 then break end
  end
  return found
end

local function another(moments, session, passes)
  for _, one in ipairs(moments) do
    if one[2] ~= session and passes(one[1]) then return true end
  end
  return false
end
