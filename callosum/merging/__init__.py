"""Stale writes: compare them with changes their session has not read, merge them, and keep or undo merges.

::

    a read ends         ── snapshots ──────── the file's bytes, once the result shows that the session saw all of them
    a write is proposed ── snapshots ──────── what it proposes
    it is stale         ── write_merger ───── base, proposal and disk ── hunks, three_way ── Prepared ── decided again
    it runs merged      ── merge_store ────── proposal, file and merge, for `callosum merges`

Only the gate on the machine that owns the file does this, and only after a decision has found an unread change.
"""
