-- Applies what some steps want done, if nothing they looked at has changed since.
-- KEYS[1] the clock. ARGV: tag, the transaction's own name, its moment, how far that may be moved on, its ticket
-- ("" for none), names looked at, names changed (two lists in MessagePack), the mark of its own ids, how many
-- entries, whether to tell who waits, the last moment when it looked; the commands: their sizes in MessagePack (for
-- each: 1 if it has own ids, how many words, the length of each), and all words in one text; how old its moment may be (0: as old as it is).
-- Answers {1, moment} applied; {0} something changed; {2, moment} the moment is taken; {3} another one's turn.
local tag, name, looked, tolerance, ticket = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local seen = tonumber(ARGV[11])
local done = redis.call('GET', tag .. 'd:' .. name)
if done then
  redis.call('PEXPIRE', tag .. 'd:' .. name, 60000)  -- a write of this connection, for it to wait for if it must be on disk
  return {1, done}
end

local depends, changes = cmsgpack.unpack(ARGV[6]), cmsgpack.unpack(ARGV[7])
for from = 1, #depends, 1000 do
  local some = {}
  for i = from, math.min(#depends, from + 999) do some[#some + 1] = depends[i] end
  for _, moment in ipairs(redis.call('ZMSCORE', tag .. 'v', unpack(some))) do
    if moment and tonumber(moment) > seen then return {0} end
  end
end

if redis.call('EXISTS', tag .. 'turn') == 1 then
  local t = redis.call('TIME')
  local now = tonumber(t[1]) * 1000000 + tonumber(t[2])
  local mine = {}
  for _, one in ipairs(changes) do mine[one] = true end
  local turns = redis.call('HGETALL', tag .. 'turn')
  for i = 1, #turns, 2 do
    if turns[i] ~= name then
      local turn = cmsgpack.unpack(turns[i + 1])
      if turn[2] < now then
        redis.call('HDEL', tag .. 'turn', turns[i])
      elseif ticket == '' or turn[1] < tonumber(ticket) then
        for _, one in ipairs(turn[3]) do
          if mine[one] then return {3} end
        end
      end
    end
  end
end

local last = tonumber(redis.call('GET', KEYS[1]) or '0')
local moment = looked
if last >= moment then moment = last + 1 end
if tonumber(ARGV[14]) > 0 then  -- no moment is older than this when it is taken, which readers of a cluster rely on
  local t = redis.call('TIME')
  local oldest = tonumber(t[1]) * 1000000 + tonumber(t[2]) - tonumber(ARGV[14])
  if moment < oldest then moment = oldest end
end
if moment - looked > tolerance then return {2, string.format('%016.0f', moment)} end

local mark = ARGV[8]
local function own(text)
  return (string.gsub(text, mark .. '(%d%d%d%d%d%d)', function(digits)
    return string.format('%016.0f', moment + tonumber(digits))
  end))
end
local sizes, text, at, from = cmsgpack.unpack(ARGV[12]), ARGV[13], 1, 1
while at <= #sizes do
  local count, command = sizes[at + 1], {}
  for i = 1, count do
    local size = sizes[at + 1 + i]
    command[i] = string.sub(text, from, from + size - 1)
    from = from + size
  end
  if sizes[at] == 1 then
    for i = 1, count do command[i] = own(command[i]) end
  end
  at = at + 2 + count
  if command[1] == '?live' then
    if redis.call('EXISTS', tag .. 'l:' .. command[2], tag .. 'n:' .. command[2]) == 0 then
      redis.call('ZREM', tag .. 'live', command[2])
    end
  elseif command[1] == '?names' then
    if redis.call('EXISTS', tag .. 'c:' .. command[2]) == 0 then
      redis.call('ZREM', tag .. 'names', command[2])
      redis.call('ZREM', tag .. 'chg', command[2])
    end
  else
    redis.call(unpack(command))
  end
end

local entries = tonumber(ARGV[9])
local when = string.format('%.0f', moment)
if #changes > 0 then
  local args
  for start = 1, #changes, 500 do
    args = {}
    for i = start, math.min(#changes, start + 499) do args[#args + 1] = when; args[#args + 1] = changes[i] end
    redis.call('ZADD', tag .. 'v', unpack(args))
  end
end
if entries > 0 then
  local count = redis.call('INCRBY', tag .. 'count', entries)
  if math.floor(count / 500) ~= math.floor((count - entries) / 500) then
    redis.call('ZADD', tag .. 'stones', count, when)
  end
end
redis.call('SET', KEYS[1], string.format('%.0f', moment + math.max(entries, 1) - 1))
redis.call('SET', tag .. 'd:' .. name, string.format('%016.0f', moment), 'PX', 60000)
if ticket ~= '' then redis.call('HDEL', tag .. 'turn', name) end
if ARGV[10] == '1' then redis.call('PUBLISH', tag .. 'wake', when) end
return {1, string.format('%016.0f', moment)}
