-- Write what some steps changed, unless something that they read has changed since.
-- KEYS[1]: the journal's key. ARGV: tag; token, the revision of what it writes; its moment; the number of moments that its
--   entries take (0: it has none); how to check the moment: 'clock' (by the server's), 'last' (it must be the last one) or ''
--   (not at all); microseconds by which it may be behind the clock, and ahead of it; channel; the name of its ticket ('' for
--   none); whether it takes one now if it must run again ('1'); microseconds that a ticket lasts; whether the connection must
--   have written ('1'). Then lists, each with its length in front: names that were read, their revisions, ranges (start, end,
--   number of names), names and values that are written, names that go, entries (moment, description, value), positions of
--   entries that go, messages. At last '1' if all this may have been sent before.
-- Return {1, clock, last} if it was written, {2, clock, last} if the moment cannot be used, {3, clock, last, number} while so
-- many others have earlier tickets, {0, clock, last, index, value, ...} with what changed meanwhile.
local call, tag, token, moment, span, check = redis.call, ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local ticket, takes_ticket, touches = ARGV[9], ARGV[10] == '1', ARGV[12] == '1'
local at = 13

local function list()
  local size, items = tonumber(ARGV[at]), {}
  for i = 1, size do items[i] = ARGV[at + i] end
  at = at + size + 1
  return items
end

local names, revisions, ranges, puts, gone, entries, dropped, messages =
  list(), list(), list(), list(), list(), list(), list(), list()
local t = call('TIME')
local clock = tonumber(t[1]) * 1000000 + tonumber(t[2])
local newest = call('ZREVRANGE', tag .. 'j', 0, 0, 'WITHSCORES')
local floor = tonumber(call('GET', tag .. 'floor') or '0')
local last = math.max(tonumber(newest[2] or '0'), floor)

if ARGV[at] == '1' then  -- whether it was applied is seen by what it wrote first
  local first
  if #entries > 0 then
    first = call('HGET', tag .. 'e', string.sub(entries[2], 1, 8))
  elseif #puts > 0 then
    first = call('HGET', tag .. 'r', puts[1])
  end
  if first and string.sub(first, 1, 8) == token then
    if touches then call('SET', tag .. 'touched', token) end  -- this connection's own write, so that it can wait for it
    return {1, clock, last}
  end
end

-- A ticket is the moment at which it was given and the token of its transaction. It is in the line of each name for which its
-- transaction had to run again: nobody with a later ticket or none changes that name before it.
local function join(lines)  -- writes only what is new: each write waits for the disk
  if ticket == '' then ticket = string.format('%016.0f', clock) .. token end
  local lasts = tonumber(ARGV[11])
  if tonumber(call('ZSCORE', tag .. 'turn', ticket) or '0') < clock + lasts / 2 then
    call('ZADD', tag .. 'turn', clock + lasts, ticket)
  end
  for i = 1, math.min(#lines, 100) do
    if call('SADD', tag .. 't:' .. ticket, lines[i]) == 1 then
      call('ZADD', tag .. 'w:' .. lines[i], string.sub(ticket, 1, 16), ticket)
      call('PEXPIRE', tag .. 'w:' .. lines[i], 60000)
      call('PEXPIRE', tag .. 't:' .. ticket, 60000)
    end
  end
end

if call('EXISTS', tag .. 'turn') == 1 then
  local own, lines, ahead = {unpack(gone)}, {}, 0
  for i = 1, #puts, 2 do own[#own + 1] = puts[i] end
  local before = ticket == '' and '+inf' or '(' .. string.sub(ticket, 1, 16)
  for _, name in ipairs(own) do
    local line, waits = tag .. 'w:' .. name, false
    for _, other in ipairs(call('ZRANGEBYSCORE', line, '-inf', before, 'LIMIT', 0, 8)) do
      local ends = call('ZSCORE', tag .. 'turn', other)
      if ends and tonumber(ends) >= clock then
        waits = true
        break
      end
      call('ZREM', line, other)
      call('ZREM', tag .. 'turn', other)
    end
    if waits then
      lines[#lines + 1] = name
      ahead = math.max(ahead, call('ZCOUNT', line, '-inf', before))
    end
  end
  if ahead > 0 then
    join(lines)
    return {3, clock, last, ahead}
  end
end

local changed, conflicts, is_true = {0, clock, last}, {}, true
for from = 1, #names, 1000 do
  local to = math.min(#names, from + 999)
  local found = call('HMGET', tag .. 'r', unpack(names, from, to))
  for i = 1, to - from + 1 do
    local value = found[i] or ''
    if string.sub(value, 1, 8) ~= revisions[from + i - 1] then
      is_true = false
      conflicts[#conflicts + 1] = names[from + i - 1]
      changed[#changed + 1] = from + i - 2
      changed[#changed + 1] = value
    end
  end
end
for i = 1, #ranges, 3 do
  if call('ZLEXCOUNT', tag .. 'n', '[' .. ranges[i], '(' .. ranges[i + 1]) ~= tonumber(ranges[i + 2]) then is_true = false end
end
if not is_true then
  if takes_ticket or ticket ~= '' then join(conflicts) end
  return changed
end

-- A record of a key or a lease that came and went leaves no trace, and what it stood for must not be later in the journal than
-- what this transaction writes.
local function is_before(a, b)  -- in the order of bytes, whatever the server's locale
  for i = 1, math.min(#a, #b) do
    if string.byte(a, i) ~= string.byte(b, i) then return string.byte(a, i) < string.byte(b, i) end
  end
  return #a < #b
end

if check ~= '' and span > 0 then
  local absent = {}
  for i = 1, #names do absent[names[i]] = revisions[i] == '' end
  for _, name in ipairs(call('ZRANGEBYSCORE', tag .. 'gone', '(' .. ARGV[3], '+inf')) do
    local was_read = absent[name]
    for i = 1, #ranges, 3 do
      was_read = was_read or (not is_before(name, ranges[i]) and is_before(name, ranges[i + 1]))
    end
    if was_read then return {2, clock, last} end
  end
end

if check ~= '' then
  local taken = span > 0 and (moment <= floor or call('ZCOUNT', tag .. 'j', moment, moment + span - 1) > 0)
  if check == 'clock' then
    taken = taken or moment < clock - tonumber(ARGV[6]) or (moment > clock + tonumber(ARGV[7]) and moment > last + 1)
  else
    taken = taken or (span > 0 and moment <= last)
  end
  if taken then return {2, clock, last} end
end

for i = 1, #puts, 2 do
  local name = puts[i]
  if call('HSET', tag .. 'r', name, token .. puts[i + 1]) == 1 and string.byte(name) ~= 97 then
    call('ZADD', tag .. 'n', 0, name)
  end
end
for _, name in ipairs(gone) do
  call('HDEL', tag .. 'r', name)
  call('ZREM', tag .. 'n', name)
  if string.byte(name) == 107 or string.byte(name) == 108 then call('ZADD', tag .. 'gone', moment, name) end
end
if #gone > 0 then call('ZREMRANGEBYSCORE', tag .. 'gone', '-inf', clock - 2 * tonumber(ARGV[6])) end
for i = 1, #entries, 3 do
  local score = entries[i]
  call('ZREMRANGEBYSCORE', tag .. 'j', score, score)  -- only a copy writes an entry again
  call('ZADD', tag .. 'j', score, entries[i + 1])
  call('HSET', tag .. 'e', string.sub(entries[i + 1], 1, 8), token .. entries[i + 2])
  last = math.max(last, tonumber(score))
end
for _, score in ipairs(dropped) do
  for _, member in ipairs(call('ZRANGEBYSCORE', tag .. 'j', score, score)) do
    local position = string.sub(member, 1, 8)
    call('ZREM', tag .. 'j', member)
    call('HDEL', tag .. 'e', position)
    call('HDEL', tag .. 'r', 'a' .. string.sub(member, 9, 24) .. position)
  end
end
if ticket ~= '' then
  for _, name in ipairs(call('SMEMBERS', tag .. 't:' .. ticket)) do call('ZREM', tag .. 'w:' .. name, ticket) end
  call('DEL', tag .. 't:' .. ticket)
  call('ZREM', tag .. 'turn', ticket)
end
if touches and #entries == 0 and #puts == 0 then call('SET', tag .. 'touched', token) end
for _, message in ipairs(messages) do call('PUBLISH', ARGV[8], message) end
return {1, clock, last}
