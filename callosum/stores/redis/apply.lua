-- Applies what some steps want done, if nothing they looked at has changed since.
-- KEYS[1] the clock. ARGV[2]: 1 if it may have been sent before. ARGV[1], in MessagePack: tag, the transaction's own name, its moment, how far that may be moved on, its
-- ticket ("" for none), what was looked at, names changed, the mark of its own ids ("" where they stand as they
-- are), how many entries, whether to tell who waits, the commands (each with the number of its words in front), how old its moment may be (0: as old as it is), what must not
-- be there, how to look.
-- What was looked at: for each look {the last moment then, names, whether it must stand}. What must not be there, for what was not
-- looked at but recalled (or false): {how old or new the moment may be by the server's clock (0: any), {{call's identity,
-- prints, keys} ...}}. How to look, if what was recalled does not stand (or false): {now, how many newest, scopes} as a text.
-- Answers a text "1 moment clock stood": applied, with the server's clock, and 1 or 0 for each look; "2 moment clock": the moment is
-- taken; "3": another one's turn; "0": something changed, or then {what was found by a look ...}.
local asked = cmsgpack.unpack(ARGV[1])
local tag, name, looked, tolerance, ticket = asked[1], asked[2], asked[3], asked[4], asked[5]
local looks, changes, mark, entries, commands = asked[6], asked[7], asked[8], asked[9], asked[11]
local recalled, again = asked[13], asked[14]
local call, stood = redis.call, {}

local t = call('TIME')
local clock = tonumber(t[1]) * 1000000 + tonumber(t[2])

local function overtaken()
  if not again then return '0' end
  local how = cmsgpack.unpack(again)
  return views(tag, KEYS[1], how[1], how[2], how[3])
end

local last = tonumber(call('GET', KEYS[1]) or '0')
if ARGV[2] == '1' then  -- its entries tell whether it was applied; what has none may be applied twice
  for _, entry in ipairs(call('XRANGE', tag .. 'log', looked, looked + tolerance)) do
    if entry[2][4] == name then
      call('SET', KEYS[1], string.format('%.0f', last))  -- a write of this connection, for it to wait for
      return string.format('1 %s %.0f 0', string.sub(entry[1], 1, 16), clock)
    end
  end
end

local turns
for place, one in ipairs(looks) do
  local since, names, must = one[1], one[2], one[3]
  stood[place] = 1
  -- The server has lost what was seen then, or may have forgotten what was changed since (it does after an hour).
  if last < since or (recalled and looked - since > 1800000000) then stood[place] = 0 end
  local count = #names
  if place == 1 then names[count + 1] = '\1t' end
  for from = 1, #names, 1000 do
    for i, moment in ipairs(call('ZMSCORE', tag .. 'v', unpack(names, from, math.min(#names, from + 999)))) do
      if moment then
        moment = tonumber(moment)
        if from + i - 1 > count then turns = moment elseif moment > since then stood[place] = 0 end
      end
    end
  end
  if must and stood[place] == 0 then return overtaken() end
end
if recalled then
  for _, one in ipairs(recalled[2]) do
    if one[1] ~= '' and call('ZSCORE', tag .. 'calls', one[1]) then return overtaken() end
    for _, print in ipairs(one[2]) do
      for _, key in ipairs(one[3]) do
        if call('ZLEXCOUNT', tag .. 'p:' .. key, '[' .. print .. ':', '(' .. print .. ';') > 0 then return overtaken() end
      end
    end
  end
end

if turns and turns > clock then
  local mine = {}
  for _, one in ipairs(changes) do mine[one] = true end
  local turns = call('HGETALL', tag .. 'turn')
  for i = 1, #turns, 2 do
    if turns[i] ~= name then
      local turn = cmsgpack.unpack(turns[i + 1])
      if turn[2] < clock then
        call('HDEL', tag .. 'turn', turns[i])
      elseif ticket == '' or turn[1] < tonumber(ticket) then
        for _, one in ipairs(turn[3]) do
          if mine[one] then return '3' end
        end
      end
    end
  end
end

local moment = looked
if last >= moment then moment = last + 1 end
if asked[12] > 0 and moment < clock - asked[12] then  -- older than readers of a cluster wait for
  moment = clock - asked[12]
end
local astray = recalled and recalled[1] > 0 and math.abs(looked - clock) > recalled[1]
if astray then moment = math.max(clock, last + 1) end  -- this process's idea of the time is wrong
if astray or moment - looked > tolerance then return string.format('2 %016.0f %.0f', moment, clock) end

local function own(digits)
  return string.format('%016.0f', moment + tonumber(digits))
end
if mark ~= '' then
  for i, word in ipairs(commands) do
    if string.find(word, mark, 1, true) then commands[i] = string.gsub(word, mark .. '(%d%d%d%d%d%d)', own) end
  end
end
local at, size = 1, #commands
while at <= size do
  local verb, last_word = commands[at + 1], at + commands[at]
  if verb == '?live' then
    local key = commands[last_word]
    if call('EXISTS', tag .. 'l:' .. key, tag .. 'n:' .. key) == 0 then call('ZREM', tag .. 'live', key) end
  elseif verb == '?names' then
    local key = commands[last_word]
    if call('EXISTS', tag .. 'c:' .. key) == 0 then
      call('ZREM', tag .. 'names', key)
      call('ZREM', tag .. 'chg', key)
    end
  else
    call(unpack(commands, at + 1, last_word))
  end
  at = last_word + 1
end

local when = string.format('%.0f', moment)
for start = 1, #changes, 500 do
  local args = {}
  for i = start, math.min(#changes, start + 499) do args[#args + 1] = when; args[#args + 1] = changes[i] end
  call('ZADD', tag .. 'v', unpack(args))
end
if entries > 0 then
  local count = call('INCRBY', tag .. 'count', entries)
  if math.floor(count / 500) ~= math.floor((count - entries) / 500) then
    call('ZADD', tag .. 'stones', count, when)
  end
end
call('SET', KEYS[1], string.format('%.0f', moment + math.max(entries, 1) - 1))
if ticket ~= '' then call('HDEL', tag .. 'turn', name) end
if asked[10] then call('PUBLISH', tag .. 'wake', cmsgpack.pack(changes)) end
return string.format('1 %016.0f %.0f ', moment, clock) .. table.concat(stood)
