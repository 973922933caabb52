-- Return everything that some scopes can depend on, without changing anything: a function for the scripts that read.
-- Parameters: tag, the clock's key, now ("" for the server's clock), number of newest actions per key, the scopes; each is
-- {me, keys, above, below {{low, high, stale}}, prints, call, find, unreported, waits, live, parent, continues, bound}.
-- If a key has more open actions than bound (0: no bound), most of them are returned as a text of their ids.
-- Return {the moment that a change would get now, the last moment that was used, the data of each scope ...}.
local function views(tag, clock, given, latest, scopes)
  local BELOW, LIVE_BELOW, TWINS = 5000, 1000, 8

  local now = tonumber(given)
  if not now then
    local t = redis.call('TIME')
    now = tonumber(t[1]) * 1000000 + tonumber(t[2])
  end
  local last = tonumber(redis.call('GET', clock) or '0')
  if now <= last then now = last + 1 end

  local function chain(name, link, first)
    local found, seen = {}, {}
    while name and name ~= '' and not seen[name] and #found < 16 do
      seen[name] = true
      found[#found + 1] = name
      name = redis.call('HGET', tag .. 's:' .. name, link)
    end
    return found
  end

  local function read(scope)
    local me, alive, bound = scope[1], scope[10], scope[13]
    local crowds = {}
    local kin = redis.call('HMGET', tag .. 's:' .. me, 'parent', 'continues')
    local parent, continues = scope[11], scope[12]
    if parent == '' then parent = kin[1] or '' end
    if continues == '' then continues = kin[2] or '' end
    local parents, before = chain(parent, 'parent'), chain(continues, 'continues')
    local wanted, order = {}, {}
    local docs, have = {}, {}
    local names_read, loaded, live_loaded = {}, {}, {}

    local function want(id)
      if not wanted[id] then wanted[id] = true; order[#order + 1] = id end
    end
    local function doc(name, session, blob)
      if not blob then return end
      local key = name .. '\0' .. session
      if have[key] then return end
      have[key] = true
      docs[#docs + 1] = name; docs[#docs + 1] = session; docs[#docs + 1] = blob
      for id in string.gmatch(string.match(blob, '^([%d,]*);'), '%d+') do want(id) end
    end
    local sessions = {me}
    for _, session in ipairs(before) do sessions[#sessions + 1] = session end

    local function live(name)
      if not alive or live_loaded[name] then return end
      live_loaded[name] = true
      local open = redis.call('ZRANGE', tag .. 'l:' .. name, 0, -1)
      if bound > 0 and #open > bound then
        crowds[#crowds + 1] = name
        crowds[#crowds + 1] = table.concat(open, ',')
        local few = {open[1]}
        for i = #open - latest + 1, #open do few[#few + 1] = open[i] end
        open = few
      end
      local unknown = redis.call('ZREVRANGE', tag .. 'n:' .. name, 0, latest - 1)
      for _, id in ipairs(open) do want(id) end
      for _, id in ipairs(unknown) do want(id) end
    end
    local function marks(name)
      local blobs = redis.call('HMGET', tag .. 'm:' .. name, unpack(sessions))
      for i, session in ipairs(sessions) do doc(name, session, blobs[i]) end
    end
    local function load(name)
      if loaded[name] then return end
      loaded[name] = true
      names_read[#names_read + 1] = name
      marks(name)
      local bar = string.find(name, '|', 1, true)
      if bar then marks(string.sub(name, 1, bar - 1)) end
      local newest = redis.call('ZREVRANGE', tag .. 'c:' .. name, 0, latest + 1)
      if #newest > 0 then
        local blobs = redis.call('HMGET', tag .. 'm:' .. name, unpack(newest))
        for i, session in ipairs(newest) do doc(name, session, blobs[i]) end
      end
      live(name)
    end
    local function newest_of(names)
      local found = {}
      for _, name in ipairs(names) do
        local top = redis.call('ZREVRANGE', tag .. 'c:' .. name, 0, 1, 'WITHSCORES')
        local at = 1
        if top[1] == me then at = 3 end
        if top[at] then found[#found + 1] = {name, tonumber(top[at + 1])} end
      end
      table.sort(found, function(a, b) return a[2] > b[2] end)
      for i = 1, math.min(#found, latest * 2) do load(found[i][1]) end
    end
    local function below(low, high, stale)
      local range = {'[' .. low, '(' .. high}
      for _, name in ipairs(redis.call('ZRANGEBYLEX', tag .. 'live', range[1], range[2], 'LIMIT', 0, LIVE_BELOW)) do
        live(name)
      end
      local names = redis.call('ZRANGEBYLEX', tag .. 'names', range[1], range[2], 'LIMIT', 0, BELOW)
      if #names == BELOW then  -- too many to read one by one: only the keys that changed last
        names = {}
        for _, name in ipairs(redis.call('ZREVRANGE', tag .. 'chg', 0, BELOW - 1)) do
          if name >= low and name < high then names[#names + 1] = name end
          if #names == latest * 2 then break end
        end
      end
      newest_of(names)
      if stale then
        newest_of(redis.call('ZRANGEBYLEX', tag .. 'sk:' .. me, range[1], range[2], 'LIMIT', 0, BELOW))
      end
    end

    local covers = {}
    for _, name in ipairs(scope[2]) do load(name) end
    for _, name in ipairs(scope[3]) do
      if string.sub(name, -1) == '/' or string.sub(name, -1) == '|' then
        if redis.call('SISMEMBER', tag .. 'cov', name) == 1 then
          covers[#covers + 1] = name
          if string.sub(name, -1) == '|' then
            below(name, string.sub(name, 1, -2) .. '}', false)
          else
            load(name)
          end
        end
      else
        load(name)
      end
    end
    for _, range in ipairs(scope[4]) do below(range[1], range[2], range[3]) end

    local function twins(name, print)  -- own and others' are limited separately, so that many own ones hide no other
      local own, others = 0, 0
      for from = 0, 255, 32 do
        local range = {'[' .. print .. ';', '[' .. print .. ':'}
        local found = redis.call('ZREVRANGEBYLEX', tag .. 'p:' .. name, range[1], range[2], 'LIMIT', from, 32)
        for _, member in ipairs(found) do
          local id, session = string.match(member, '^%x*:(%d+):(.*)$')
          if session == me then own = own + 1 else others = others + 1 end
          if (session == me and own <= TWINS) or (session ~= me and others <= TWINS) then want(id) end
        end
        if #found < 32 or (own >= TWINS and others >= TWINS) then return end
      end
    end
    for _, print in ipairs(scope[5]) do
      for _, name in ipairs(scope[2]) do twins(name, print) end
    end

    local earlier, answer = '', ''
    if scope[6] ~= '' then
      local id = redis.call('ZSCORE', tag .. 'calls', scope[6])
      if id then
        earlier = string.format('%016.0f', tonumber(id))
        want(earlier)
        local entry = redis.call('XRANGE', tag .. 'log', earlier, earlier)
        if entry[1] then answer = entry[1][2][2] end
      end
    end
    if scope[7] ~= '' then
      local record = redis.call('HGET', tag .. 'a', scope[7])
      if record then
        want(scope[7])
        local action = cmsgpack.unpack(string.sub(record, 7, 6 + tonumber(string.sub(record, 1, 6))))
        for _, name in ipairs(action[2]) do doc(name, action[1], redis.call('HGET', tag .. 'm:' .. name, action[1])) end
        for _, id in ipairs(action[3]) do want(id) end
      end
    end
    local unreported, queued = {}, {}
    if scope[8] or scope[9] then
      for _, list in ipairs({'h:', 'u:'}) do
        for _, id in ipairs(redis.call('ZRANGE', tag .. list .. me, 0, -1)) do
          unreported[#unreported + 1] = id
        end
      end
      if #unreported > 0 then
        if scope[9] then queued = redis.call('ZRANGE', tag .. 'q', 0, -1) end
        for _, id in ipairs(unreported) do want(id) end
        local held = {}
        for _, id in ipairs(queued) do  -- and what the waiters hold, because others may wait for it
          want(id)
          local record = redis.call('HGET', tag .. 'a', id)
          local waiter = record and cmsgpack.unpack(string.sub(record, 7, 6 + tonumber(string.sub(record, 1, 6))))[1]
          if waiter and not held[waiter] then
            held[waiter] = true
            for _, other in ipairs(redis.call('ZRANGE', tag .. 'h:' .. waiter, 0, -1)) do want(other) end
          end
        end
      end
    end

    local actions = {}
    for from = 1, #order, 1000 do
      local some = {}
      for i = from, math.min(#order, from + 999) do some[#some + 1] = order[i] end
      local blobs = redis.call('HMGET', tag .. 'a', unpack(some))
      for i, id in ipairs(some) do
        if blobs[i] then actions[#actions + 1] = id; actions[#actions + 1] = blobs[i] end
      end
    end
    return {parents, before, docs, actions, earlier, answer, unreported, names_read, crowds}
  end

  local answers = {string.format('%016.0f', now), string.format('%016.0f', last)}
  for _, scope in ipairs(scopes) do answers[#answers + 1] = read(scope) end
  return answers
end
