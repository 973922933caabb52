-- When an action counts as evidence: functions for the scripts that delete. They read records as records.py encodes them.

-- Return an action's state, the moment of its report (0: it has none) and the moment at which its lease runs out.
local function state_of(blob)
  local front = tonumber(string.sub(blob, 1, 6))
  -- After the front and three bytes with the number of fields come session, keys, state, tool, tier, ended and expires.
  -- The fields after them contain bytes, which scripts cannot read.
  local _, _, _, state, _, _, ended, expires = cmsgpack.unpack_limit(blob, 7, front + 9)
  return state, ended, expires
end

-- Return the moment from which an action's age counts: its report's, or without one, when it can no longer be running.
local function dated(id, blob)
  local _, ended, expires = state_of(blob)
  return math.max(tonumber(id), ended > 0 and ended or expires)
end
