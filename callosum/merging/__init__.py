"""Writes over changes that their session has not read: found apart, merged, kept, and undone.

::

    a read ends       ── snapshots ── the file's bytes, once the result shows that the session saw all of them
    a write is asked  ── snapshots ── what it proposes
    it is stale       ── writers   ── base, proposal and disk ── lines, merge ── Prepared ── decided again
    it runs merged    ── kept      ── proposal, file and merge, for `callosum merges`

Only the gate on the machine that owns the file does this, and only after a decision has met an unread change.
"""
