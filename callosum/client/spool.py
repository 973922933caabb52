"""Keep what a client could not tell the gate until it can: in the spool of the state folder, else in memory.

::

    call without the gate ─┐
    report, cancellation ──┴─> spool (a file) ── pages ──> POST /late, or the gate reads the file itself
                                 └─ no folder, or no room: memory

A record in the file holds the classification and a redacted summary, see ``callosum.spool``. A record in memory holds
the whole call, and the gate classifies it.
"""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from time import time

from callosum.spool import MAX_PAGE, PAGE_BYTES, Spool, merged, written

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any, Final

    Post = Callable[[bytes, int], object]
    Classify = Callable[[Mapping[str, Any]], Mapping[str, Any]]
    """Returns ``found`` and ``contentKey`` of a call in wire form; empty if the call cannot be classified."""

MAX_KEPT: Final = 1000
"""Maximum number of records kept in memory; the oldest are dropped first."""
FIELDS: Final = (
    "instance", "tool", "action", "session", "namespace", "callId", "cwd", "worktree", "worktrees", "home", "homes",
    "run", "parent", "continues", "origin", "description", "annotations",
)  # fmt: skip
"""Fields of a call that a record keeps beside the params."""


def _warn(message: str, *values: object) -> None:
    import logging  # noqa: PLC0415 - takes a hook process as long as all else here

    logging.getLogger("callosum").warning(message, *values)


class PageRefused(Exception):
    """The gate refused a page. ``at`` is the index of the faulty record, None if the gate did not say.

    ``theirs``: the record itself is valid, but this client's token does not speak for its instance.
    """

    def __init__(self, message: str, at: int | None = None, *, theirs: bool = False) -> None:
        super().__init__(message)
        self.at = at
        self.theirs = theirs


class ClientSpool:
    """Keeps records the gate has not received yet. ``folder`` is the state folder, None to keep them in memory only.

    ``taken``: the gate reads the folder's spool file itself. ``classify`` classifies a call before it is written to the
    file. Usable from any thread. A forked child starts with an empty memory; records that the parent kept are sent by
    the parent.
    """

    def __init__(self, folder: str | None, *, taken: bool = False, classify: Classify | None = None) -> None:
        self._spool = Spool(folder) if folder is not None else None
        self._taken = taken
        self._classify = classify
        self._clear()

    def _clear(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._flushing = threading.Lock()
        self._kept: deque[bytes] = deque(maxlen=MAX_KEPT)
        self._open: dict[str, deque[Mapping[str, Any]]] = {}
        self._full = False

    def let_through(self, call: Mapping[str, Any], *, call_id: str | None = None, why: str | None = None) -> None:
        """Record a call that runs without the gate; ``report`` later records how it ended.

        ``call`` is in wire form (``callId``, not ``call_id``). ``call_id`` is the id under which the gate was asked,
        for a ``call`` that has none itself. ``why`` is the reason why the gate refused to judge it.
        """
        identity = _identity(call)
        record = self._record("call", {**call, "callId": call.get("callId") or call_id or os.urandom(16).hex()})
        record |= {"why": why} if why else {}
        with self._mine():
            self._open.setdefault(identity, deque(maxlen=MAX_KEPT)).append(record)
            while len(self._open) > MAX_KEPT:
                del self._open[next(iter(self._open))]
        self._note({**record, "running": True, "outcome": "done", "started": round(time(), 6)})

    def report(self, call: Mapping[str, Any], outcome: str) -> None:
        """Record how such a call ended: the oldest unreported one with this call id, or else with these params."""
        identity = _identity(call)
        with self._mine():
            noted = self._open.get(identity)
            record = noted.popleft() if noted else None
            if not noted:
                self._open.pop(identity, None)
        if record is None:
            record = self._record("call", {**call, "callId": call.get("callId") or os.urandom(16).hex()})
        else:
            record = {**record, "kind": "report"}
        self._note({**record, "outcome": outcome, "ended": round(time(), 6)})

    def report_action(
        self, words: Mapping[str, Any], outcome: str, *, id: int | None = None, key: str | None = None
    ) -> None:
        """Record how an action ended that the gate has opened: named by ``id``, by tool and params, or by a key.

        ``words`` name the actor, and the tool and params as far as they are known.
        """
        record: dict[str, Any] = {"kind": "report", "v": 2, "call": _kept({"tool": "?", **words})}
        if id is not None:
            record["id"] = id
        elif "tool" in words:
            record = self._record("report", words)
        elif key is not None:
            record["found"] = {"tier": 0, "keys": [[key, "write"]]}
        self._note({**record, "outcome": outcome, "ended": round(time(), 6)})

    def give_up(self, call: Mapping[str, Any]) -> None:
        """Record that a call was given up undecided: an action that the gate opened for it did not run."""
        self._note({"kind": "cancel", "v": 2, "call": _kept(call), "outcome": "cancelled", "ended": round(time(), 6)})

    def waiting(self) -> bool:
        """Return whether there is something to send, by a quick check."""
        with self._mine():
            return bool(self._kept) or (self._spool is not None and not self._taken and self._spool.waiting())

    def flush(self, post: Post, wait: float = 0.0) -> int:
        """Send the pending records in pages and return how many the gate accepted.

        ``post(body, count)`` sends the body of one ``POST /late``. It raises ``PageRefused`` if the gate refuses a
        record. That record is then dropped, or, in a shared file, left to the client whose it is. Any other exception
        ends the flush, and unsent records stay. One flush runs at a time; a second one waits up to ``wait`` seconds for
        it and then does nothing.
        """
        with self._mine():
            flushing = self._flushing
        if not flushing.acquire(timeout=max(0.0, wait)):
            return 0
        try:
            return self._flush(post)
        finally:
            flushing.release()

    def _flush(self, post: Post) -> int:
        taken = 0
        spool = self._spool
        if spool is not None and not self._taken:

            def accept(lines: Sequence[bytes]) -> Sequence[bytes]:
                nonlocal taken
                count, theirs = _send(_read(lines), post, shared=True)
                taken += count
                return theirs

            spool.take(accept, wait=0.0)
        while True:
            with self._lock:
                kept = list(self._kept)[:MAX_PAGE]
            page = next(_pages(_read(kept)), [])
            lines = [line.written for line in page]
            if not page:
                return taken
            count, _ = _send(_read(merged(lines)), post, shared=False)
            taken += count
            with self._lock:
                gone = {id(line) for line in lines}
                left = [line for line in self._kept if id(line) not in gone]
                self._kept.clear()
                self._kept.extend(left)

    def _record(self, kind: str, call: Mapping[str, Any]) -> dict[str, Any]:
        """Return a record of a call with its params: classified and summarised for the file, whole for memory."""
        fields = _kept(call)
        params = call.get("params")
        if self._spool is None:
            if params:
                fields["params"] = params
            return {"kind": kind, "v": 2, "call": fields}
        from callosum.redact import summarise  # noqa: PLC0415 - needed when a gate is away, not at each start

        if params:
            fields["params"] = summarise(params)
        classification = self._classify(call) if self._classify is not None else {}
        return {"kind": kind, "v": 2 if classification else 1, "call": fields, **classification}

    def _note(self, record: Mapping[str, Any]) -> None:
        line = written(record)
        if self._spool is not None and self._spool.add(line):
            return
        with self._mine():
            if len(self._kept) == MAX_KEPT and not self._full:
                self._full = True
                _warn("more than %d calls ran without the gate: the oldest are forgotten", MAX_KEPT)
            self._kept.append(line)

    def _mine(self) -> threading.Lock:
        if self._pid != os.getpid():
            self._clear()
        return self._lock


# --- records -------------------------------------------------------------------------------------------


def _kept(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a call that a record keeps, without the params."""
    return {name: call[name] for name in FIELDS if call.get(name) is not None}


def _identity(call: Mapping[str, Any]) -> str:
    """Return the string by which a later report finds the call."""
    if call.get("callId") is not None:
        return json.dumps([call.get(name) for name in ("namespace", "instance", "session", "callId")], default=str)
    return json.dumps([_kept(call), call.get("params")], default=str, sort_keys=True)


class _Line:
    """One record as it is sent, with its namespace and instance."""

    __slots__ = ("actor", "written")

    def __init__(self, written: bytes) -> None:
        call = json.loads(written)["call"]
        self.actor = (str(call.get("namespace")), str(call.get("instance")))
        self.written = written


def _is_record(line: bytes) -> bool:
    try:
        _Line(line)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False
    return True


def _read(lines: Sequence[bytes] | deque[bytes]) -> list[_Line]:
    """Return the records among the lines. A killed process may leave half a line, which is skipped."""
    return [_Line(line) for line in lines if _is_record(line)]


def _pages(lines: Sequence[_Line]) -> Iterator[list[_Line]]:
    page: list[_Line] = []
    size = 0
    for line in lines:
        if page and (len(page) == MAX_PAGE or size + len(line.written) > PAGE_BYTES):
            yield page
            page, size = [], 0
        page.append(line)
        size += len(line.written) + 1
    if page:
        yield page


def _send(page: Sequence[_Line], post: Post, *, shared: bool) -> tuple[int, list[bytes]]:
    """Send a page, leaving out the records that the gate refuses.

    Return how many records it accepted and, if the file is shared, those that a client of another instance must send.
    """
    lines = list(page)
    theirs: list[bytes] = []
    while lines:
        try:
            body = b'{"now":%.6f,"calls":[%s]}' % (time(), b",".join(line.written for line in lines))
            post(body, len(lines))
        except PageRefused as error:
            bad = lines
            if error.at is not None and error.at < len(lines):
                first = lines[error.at]
                bad = [line for line in lines if (line.actor == first.actor if error.theirs else line is first)]
            elif len(lines) > 1:
                half = len(lines) // 2
                first_count, first_theirs = _send(lines[:half], post, shared=shared)
                count, others = _send(lines[half:], post, shared=shared)
                return first_count + count, [*theirs, *first_theirs, *others]
            lines = [line for line in lines if line not in bad]
            if error.theirs and shared:
                theirs += [line.written for line in bad]
            else:
                _warn("%d calls that ran without the gate are not journalled: %s", len(bad), error)
        else:
            break
    return len(lines), theirs
