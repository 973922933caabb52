"""What a process knows without asking the server: decoded records by revision, the server's time, and its own turns."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from callosum.errors import Unconfirmed
from callosum.model import SECOND, Applied
from callosum.stores import names
from callosum.stores.base import Request
from callosum.stores.port import OF_ENTRY, SELDOM, Written

_MOST: Final = 20_000
"""Number of records that a process keeps at most."""
_AVOIDED: Final = 1.0
"""Seconds for which a record is not kept that others had changed."""
_MAX_ESTIMATE_AGE: Final = 10.0
"""Seconds after which an estimate of the server's time is replaced even by a worse one."""
_LONGEST: Final = 2.0
"""Seconds that a thread waits for its turn at most."""
_MOST_JOINED: Final = 63
"""Number of waiting batches that a thread runs with its own at most."""
Run = Callable[[Sequence[Request]], list[Applied | Exception]]
"""Runs the requests of a batch, as ``Store.transact`` does."""


class RecordCache:
    """Decoded records with their revisions. One that is outdated is noticed at the commit. Safe for threads.

    ``absent`` is the revision of a record that is not there.
    """

    def __init__(self, absent: Any) -> None:
        self.found: dict[bytes, tuple[Any, Any]] = {}
        self._absent = absent
        self._avoided: dict[bytes, float] = {}
        self._lock = threading.Lock()

    def avoid(self, those: Iterable[bytes]) -> None:
        """Keep no record of these names for a while: other processes change them all the time."""
        self._avoided |= dict.fromkeys(those, time.monotonic() + _AVOIDED)

    def committed(
        self,
        known: Mapping[bytes, Any],
        read: Mapping[bytes, Any],
        changed: Mapping[bytes, Any],
        entries: Sequence[Written],
        revision: Any,
        of_entries: Any,
    ) -> None:
        """Keep what a transaction has read and written; ``of_entries`` is the revision of its entries' records.

        An entry's record that changes has mostly ended, so it is not kept.
        """
        new = {
            name: (at, known[name])
            for name, at in read.items()
            if name in known and name not in changed and name[0] not in SELDOM
        }
        for name, record in changed.items():
            if name[0] == OF_ENTRY or name[0] in SELDOM:
                self.drop((name,))
            else:
                new[name] = (self._absent, False) if record is False else (revision, record)
        for one in entries:
            if one.record is not None and one.name not in changed:
                new[one.name] = (of_entries, one.record)
        if self._avoided:
            now = time.monotonic()
            self._avoided = {name: until for name, until in self._avoided.items() if until > now}
            new = {name: one for name, one in new.items() if name not in self._avoided}
        self.found.update(new)
        if len(self.found) > _MOST:
            with self._lock:
                for name in list(islice(self.found, max(0, len(self.found) - _MOST // 2))):
                    self.found.pop(name, None)

    def drop(self, those: Iterable[bytes]) -> None:
        """Forget these records."""
        for name in those:
            self.found.pop(name, None)

    def keys_of(self, requests: Sequence[Request]) -> Iterator[tuple[str, str]]:
        """Return the keys that these requests are about, as far as this process knows them."""
        for scope, _ in requests:
            keys = scope.keys
            if not keys and scope.find is not None and scope.find.id is not None and 0 < scope.find.id < 1 << 63:
                _, record = self.found.get(names.action(scope.namespace, scope.find.id), (b"", False))
                keys = record.action.keys if record else ()
            yield from [(scope.namespace, key.name) for key in keys]


class ServerTime:
    """Estimate the server's clock from its answers and this process's monotonic clock.

    The machine's own clock may be wrong by days; it is not used.
    """

    def __init__(self) -> None:
        self._offset: float | None = None
        self._taken = 0.0

    def update(self, moment: int, *, anew: bool = False) -> None:
        """Update the estimate with the moment in an answer that has just arrived. The best of recent ones is kept.

        The moment counts from the arrival, so a slow answer puts the estimate behind the server's clock, never
        ahead of it: an estimate ahead would make running leases look expired. ``anew``: the estimate was wrong.
        """
        arrived = time.monotonic()
        offset, previous = moment - arrived * SECOND, self._offset
        if (
            anew
            or previous is None
            or offset > previous
            or previous - offset > SECOND
            or arrived - self._taken > _MAX_ESTIMATE_AGE
        ):
            self._offset, self._taken = offset, arrived

    def now(self) -> int | None:
        """Return the estimated moment in microseconds, None before the first answer."""
        return None if self._offset is None else int(self._offset + time.monotonic() * SECOND)


class _Batch:
    """What one thread wants to run: it needs ``keys`` for itself. ``outcome``: its answers, or the error to raise."""

    def __init__(self, keys: frozenset[tuple[str, str]], requests: Sequence[Request]) -> None:
        self.keys, self.requests = keys, requests
        self.woken = threading.Event()
        self.joined = False
        self.outcome: list[Applied | Exception] | Exception = []


class Turns:
    """Let the threads of a process that work on the same keys take turns, in the order in which they came.

    The store would notice that one overtook another, but only after each had asked it. A thread whose turn it is runs
    the batches of the threads behind it too, if these need no other keys: many steps for the price of one transaction.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: dict[tuple[str, str], list[_Batch]] = {}
        self._pid = os.getpid()

    def run(self, keys: Iterable[tuple[str, str]], requests: Sequence[Request], run: Run) -> list[Applied | Exception]:
        """Run a batch that needs these keys, each with its namespace, for itself. Raises what ``run`` raises."""
        if self._pid != os.getpid():  # the other threads stayed in the process that was forked
            self._lock, self._lines, self._pid = threading.Lock(), {}, os.getpid()
        me = _Batch(frozenset(keys), requests)
        with self._lock:
            for key in me.keys:
                self._lines.setdefault(key, []).append(me)
            has_turn = self._has_turn(me)
        has_turn = has_turn or me.woken.wait(_LONGEST)
        joined: list[_Batch] = []
        with self._lock:
            if has_turn and not me.joined:
                behind = dict.fromkeys(one for key in me.keys for one in self._lines[key][1:])
                joined = [one for one in behind if one.keys <= me.keys][:_MOST_JOINED]
                for one in joined:
                    one.joined = True
                    self._leave(one)
            elif not me.joined:
                self._leave(me)  # from now on it competes with the others, which is only slower
        if me.joined:
            me.woken.wait()
        else:
            self._run([me, *joined], run)
        if isinstance(me.outcome, Exception):
            raise me.outcome
        return me.outcome

    def _run(self, batches: Sequence[_Batch], run: Run) -> None:
        outcome: list[Applied | Exception] | Exception = Unconfirmed("the thread that ran the batch was stopped")
        try:
            outcome = run([request for one in batches for request in one.requests])
        except Exception as error:  # noqa: BLE001 - each of them raises it
            outcome = error
        finally:
            at = 0
            for one in batches:
                mine, at = slice(at, at + len(one.requests)), at + len(one.requests)
                if isinstance(outcome, Unconfirmed):
                    one.outcome = Unconfirmed(str(outcome), outcome.answers[mine], reachable=outcome.reachable)
                    one.outcome.__cause__ = outcome.__cause__
                else:
                    one.outcome = outcome if isinstance(outcome, Exception) else outcome[mine]
            with self._lock:
                self._leave(batches[0])
            for one in batches[1:]:
                one.woken.set()

    def _has_turn(self, one: _Batch) -> bool:
        return all(self._lines[key][0] is one for key in one.keys)

    def _leave(self, one: _Batch) -> None:
        """Take a batch out of its lines, and wake those that have their turn then."""
        for key in one.keys:
            line = self._lines.get(key, [])
            if one in line:
                line.remove(one)
            if not line:
                self._lines.pop(key, None)
            elif self._has_turn(line[0]):
                line[0].woken.set()
