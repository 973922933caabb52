-- When an action counts as evidence: functions for the scripts that forget. They read it as records.py keeps it.

-- Its state, the moment of its report (0: it has none) and the one at which its lease runs out.
local function act(blob)
  local front = tonumber(string.sub(blob, 1, 6))
  -- Behind the front and the three bytes that say how many fields come: session, keys, state, tool, tier, ended, expires.
  -- What comes after them holds bytes, which scripts cannot read.
  local _, _, _, state, _, _, ended, expires = cmsgpack.unpack_limit(blob, 7, front + 9)
  return state, ended, expires
end

-- The moment by which it is forgotten: its report's; without one, that at which it can no longer be running.
local function dated(id, blob)
  local _, ended, expires = act(blob)
  return math.max(tonumber(id), ended > 0 and ended or expires)
end
