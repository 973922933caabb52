-- Apply the changes of some steps, unless something that they read has changed since.
-- KEYS[1]: the clock's key. ARGV[2]: 1 if the request may have been sent before. ARGV[1], in MessagePack:
--   1 tag, 2 the transaction's name, 3 its moment, 4 microseconds by which the moment may be moved to a later one,
--   5 its ticket ("" for none), 6 the reads, 7 the changed names, 8 the mark of its own ids ("" if they are final),
--   9 the number of entries, 10 whether to wake waiters, 11 the commands, each preceded by the number of its words,
--   12 microseconds by which the moment may be older than the clock (0: any), 13 what must be absent, 14 how to read again.
-- The reads: for each {moment of the read, names, whether the transaction depends on it}.
-- What must be absent, if the view came from a cache (else false): {microseconds by which the moment may differ from the
-- server's clock (0: any), {{call identity, fingerprints, keys} ...}}.
-- How to read again, if a cached view is no longer true (or false): {now, number of newest actions, scopes}, encoded.
-- Return the text "1 moment clock unchanged" if the changes were applied, with the server's clock and 1 or 0 for each read;
-- "2 moment clock" if the moment is taken; "3" if another transaction has its turn; "0", or a new view, if something changed.
local request = cmsgpack.unpack(ARGV[1])
local tag, name, base, tolerance, ticket = request[1], request[2], request[3], request[4], request[5]
local reads, changes, mark, entries, commands = request[6], request[7], request[8], request[9], request[11]
local absent, again = request[13], request[14]
local call, unchanged = redis.call, {}

local t = call('TIME')
local clock = tonumber(t[1]) * 1000000 + tonumber(t[2])

local function refused()
  if not again then return '0' end
  local how = cmsgpack.unpack(again)
  return views(tag, KEYS[1], how[1], how[2], how[3])
end

local last = tonumber(call('GET', KEYS[1]) or '0')
if ARGV[2] == '1' then  -- its entries show whether it was applied; a change without entries may be applied twice
  for _, entry in ipairs(call('XRANGE', tag .. 'log', base, base + tolerance)) do
    if entry[2][4] == name then
      call('SET', KEYS[1], string.format('%.0f', last))  -- a write of this connection, so that it can wait for it
      return string.format('1 %s %.0f 0', string.sub(entry[1], 1, 16), clock)
    end
  end
end

local turns
for index, read in ipairs(reads) do
  local since, names, must = read[1], read[2], read[3]
  unchanged[index] = 1
  -- The server lost data that was read, or may have deleted the names that changed since (upkeep does after an hour).
  if last < since or (absent and base - since > 1800000000) then unchanged[index] = 0 end
  local count = #names
  if index == 1 then names[count + 1] = '\1t' end
  for from = 1, #names, 1000 do
    for i, moment in ipairs(call('ZMSCORE', tag .. 'v', unpack(names, from, math.min(#names, from + 999)))) do
      if moment then
        moment = tonumber(moment)
        if from + i - 1 > count then turns = moment elseif moment > since then unchanged[index] = 0 end
      end
    end
  end
  if must and unchanged[index] == 0 then return refused() end
end
if absent then
  for _, parts in ipairs(absent[2]) do
    if parts[1] ~= '' and call('ZSCORE', tag .. 'calls', parts[1]) then return refused() end
    for _, print in ipairs(parts[2]) do
      for _, key in ipairs(parts[3]) do
        if call('ZLEXCOUNT', tag .. 'p:' .. key, '[' .. print .. ':', '(' .. print .. ';') > 0 then return refused() end
      end
    end
  end
end

if turns and turns > clock then
  local own_names = {}
  for _, changed in ipairs(changes) do own_names[changed] = true end
  local turns = call('HGETALL', tag .. 'turn')
  for i = 1, #turns, 2 do
    if turns[i] ~= name then
      local turn = cmsgpack.unpack(turns[i + 1])
      if turn[2] < clock then
        call('HDEL', tag .. 'turn', turns[i])
      elseif ticket == '' or turn[1] < tonumber(ticket) then
        for _, read in ipairs(turn[3]) do
          if own_names[read] then return '3' end
        end
      end
    end
  end
end

local moment = base
if last >= moment then moment = last + 1 end
if request[12] > 0 and moment < clock - request[12] then  -- readers of a cluster would not wait for an older moment
  moment = clock - request[12]
end
local wrong_time = absent and absent[1] > 0 and math.abs(base - clock) > absent[1]
if wrong_time then moment = math.max(clock, last + 1) end  -- the process's estimate of the time is wrong
if wrong_time or moment - base > tolerance then return string.format('2 %016.0f %.0f', moment, clock) end

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
if request[10] then call('PUBLISH', tag .. 'wake', cmsgpack.pack(changes)) end
return string.format('1 %016.0f %.0f ', moment, clock) .. table.concat(unchanged)
