-- Read records and journal; nothing but the floor is written.
-- KEYS[1]: the journal's key. ARGV: tag, what to read, its arguments; last, 1 or 0.
-- Return the server's clock, the last moment that was used or shown, then what was asked for:
--   get {names ...}: each value with its revision in front, '' for an absent one
--   scan {start, end, limit, newest}: names and values in turn
--   page {after, limit, newest, ends, settled}: entries' descriptions and values in turn. If ``settled``, an entry that is
--     written later gets a later position than what was shown, so a reader that continues from there misses nothing.
--     ``ends`` (0: none) is where a reader of several servers stops, and how far the floor rises.
--   opened {within, namespace, limit, whether to ask for sessions, sessions ...}: positions of entries with a record, newest first
--   bodies {positions ...}: values of entries
local call, tag, verb = redis.call, ARGV[1], ARGV[2]
local t = call('TIME')
local newest = call('ZREVRANGE', tag .. 'j', 0, 0, 'WITHSCORES')
local floor = tonumber(call('GET', tag .. 'floor') or '0')
local last = math.max(tonumber(newest[2] or '0'), floor)
local answer = {tonumber(t[1]) * 1000000 + tonumber(t[2]), last}

if verb == 'get' or verb == 'bodies' then
  for from = 3, #ARGV - 1, 1000 do
    local key = tag .. (verb == 'get' and 'r' or 'e')
    for _, value in ipairs(call('HMGET', key, unpack(ARGV, from, math.min(#ARGV - 1, from + 999)))) do
      answer[#answer + 1] = value or ''
    end
  end
elseif verb == 'scan' then
  local names
  if ARGV[6] == '1' then
    names = call('ZREVRANGEBYLEX', tag .. 'n', '(' .. ARGV[4], '[' .. ARGV[3], 'LIMIT', 0, ARGV[5])
  else
    names = call('ZRANGEBYLEX', tag .. 'n', '[' .. ARGV[3], '(' .. ARGV[4], 'LIMIT', 0, ARGV[5])
  end
  answer[3] = names
  for from = 1, #names, 1000 do
    answer[#answer + 1] = call('HMGET', tag .. 'r', unpack(names, from, math.min(#names, from + 999)))
  end
elseif verb == 'page' then
  local after, limit, newest, ends = '(' .. ARGV[3], tonumber(ARGV[4]), ARGV[5] == '1', tonumber(ARGV[6])
  local high, members = ends > 0 and ARGV[6] or '+inf', nil
  if newest then
    members = call('ZREVRANGEBYSCORE', tag .. 'j', high, after, 'LIMIT', 0, limit)
  else
    members = call('ZRANGEBYSCORE', tag .. 'j', after, high, 'LIMIT', 0, limit)
  end
  answer[3] = members
  local positions = {}
  for i, member in ipairs(members) do positions[i] = string.sub(member, 1, 8) end
  for from = 1, #positions, 1000 do
    answer[#answer + 1] = call('HMGET', tag .. 'e', unpack(positions, from, math.min(#positions, from + 999)))
  end
  if ARGV[7] == '0' then
    return answer
  elseif #members > 0 then
    local shown = tonumber(call('ZSCORE', tag .. 'j', members[newest and 1 or #members]))
    if #members < limit and ends > shown then shown = ends end
    -- a server without memory refuses this, and everything that would be written below the floor too
    if shown > floor then redis.pcall('SET', tag .. 'floor', string.format('%.0f', shown)) end
  elseif ends > floor then
    redis.pcall('SET', tag .. 'floor', string.format('%.0f', ends))
  end
elseif verb == 'opened' then
  local limit, sessions = tonumber(ARGV[5]), ARGV[6] == '1' and {} or nil
  for i = 7, #ARGV - 1 do sessions[ARGV[i]] = true end
  for _, member in ipairs(call('ZREVRANGE', tag .. 'j', 0, ARGV[3] - 1)) do
    if string.sub(member, 41, 41) == 'a' and string.sub(member, 9, 24) == ARGV[4]
      and (not sessions or sessions[string.sub(member, 25, 32)]) then
      answer[#answer + 1] = string.sub(member, 1, 8)
      if #answer - 2 >= limit then break end
    end
  end
end
return answer
