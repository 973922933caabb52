"""Records and journal in a Redis, a Valkey or a Redis Cluster.

A transaction locks nothing. It reads, or takes what the process knows already; ``commit.lua`` writes only if every
record that was used still has the revision that was used, and every range that was read as many names. Otherwise the
steps run again, on the answer of that script. After three times the transaction has a ticket for at most two seconds:
until it is over, nobody else changes what it read.

Moments come from the server and entries need not be written in their order, so calls on different keys do not hold each
other up. What a reader was shown is complete nevertheless: reading raises a floor, and no entry is written below it. An
entry is later than the end of every lease that its step counted as over: otherwise the steps run again.

A batch that is sent again because its answer was lost is written once: the revision of what it wrote is its own, and a
change is only looked for under names that nobody else could have given that revision.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn

from redis import exceptions as faults

from callosum.errors import Unconfirmed
from callosum.model import SECOND, Entry
from callosum.stores.base import Request
from callosum.stores.names import digest
from callosum.stores.port import SELDOM, Found, Overtaken, Written, values
from callosum.stores.redis import deadline
from callosum.stores.redis.connection import InDoubt, NotDurable, Script
from callosum.stores.redis.notifications import notices
from callosum.stores.redis.reader import LATE, REVISION, SHARED, RedisReader, described

if TYPE_CHECKING:
    from callosum.stores.redis.engine import RedisEngine

COMMIT: Final = Script("commit")
_PAST: Final = 2 * SECOND
"""Microseconds by which a new entry may be in the past on a single server."""
_AHEAD: Final = 100_000
"""Microseconds by which this process's estimate of the server's time may be ahead."""
_OVERTAKEN: Final = 2
"""Number of times that a transaction was overtaken when the next time gives it a ticket."""
_TICKET: Final = 7
"""Place of the ticket in a request."""
_TICKET_TIME: Final = 2 * SECOND
"""Microseconds that a ticket lasts if its holder dies."""
_WRITTEN, _TOO_EARLY, _WAIT = 1, 2, 3  # answers of ``commit.lua``
_Answers = Mapping[tuple[Any, ...], list[Any]]


class Tries(threading.local):
    """What a thread keeps from one try of a transaction to the next."""

    ticket = b""
    tag = ""
    doubt: NotDurable | None = None

    def __init__(self) -> None:
        self.raw: dict[bytes, bytes] = {}
        self.compared: Collection[bytes] = ()
        self.answers: _Answers = {}
        """What was asked, if it is only the moment of the last try that was too early."""

    def forget(self) -> None:
        """Forget the tries of a transaction that is over."""
        self.raw, self.ticket, self.answers = {}, b"", {}


class RedisTransaction(RedisReader):
    """One try. ``keeps`` is False for upkeep and copies, which leave nothing in the cache and may write old entries."""

    used: set[bytes]

    def __init__(self, engine: RedisEngine, requests: Sequence[Request], clock: int | None) -> None:
        super().__init__(engine.spaces, clock)
        self.engine = engine
        self.used = set()
        self.keeps = bool(requests)
        self.raw: dict[bytes, bytes] = {}
        self.revisions: dict[bytes, bytes] = {}
        self._ranges: list[tuple[bytes, bytes, int]] = []
        self._newer: dict[bytes, bytes] = {}
        """What a range showed of records that had been read with another revision: it never held at once.

        The number of names in the range may be right again at the commit, and so may the first revision.
        """
        self._answers: dict[tuple[Any, ...], list[Any]] = {}
        self._questions = 0
        self._is_mixed = False
        self._runs_again = False

    def begun(self, first: Sequence[bytes], tries: int) -> RedisTransaction:
        """Take what the process knows of these records and read the rest.

        After a conflict it knows what was compared then; anything else has probably changed too.
        """
        engine, found = self.engine, self.engine.cache.found
        self.last = engine.last
        self.tries = tries
        if tries:
            self.raw, self._is_mixed = engine.here.raw, True
            self.revisions = {name: value[:REVISION] for name, value in self.raw.items()}
        missing, new = [], []
        for name in first:
            if name in self.raw or name in self.known:
                continue
            if (one := found.get(name)) is not None:
                self.revisions[name], self.known[name] = one
                self._is_mixed = True
            elif engine.link.cluster and name[1:17] == SHARED:
                self.raw[name] = engine.fact(name)
            elif name[0] in SELDOM:
                new.append(name)
            else:
                missing.append(name)
        estimate = engine.server_time.now() if not self._injected else self.clock
        if missing or estimate is None or not self.keeps:
            self.fetched([*missing, *new]) if missing or new else self.look()
        else:
            self.clock, self._is_mixed = estimate, True
            for name in new:
                self.revisions[name], self.known[name] = b"", False
        return self

    def noted(self, clock: int, last: int) -> None:
        super().noted(clock, last)
        self.engine.noted(clock, last)

    def ask(self, tag: str, verb: str, *more: Any) -> list[Any]:
        asked = (tag, verb, *more)
        answer = self.engine.here.answers.get(asked)
        self._answers[asked] = answer = super().ask(tag, verb, *more) if answer is None else answer
        return answer

    def fetched(self, names: Sequence[bytes]) -> dict[bytes, bytes]:
        self._questions += 1
        found = super().fetched(names)
        for name, value in found.items():
            self.raw.setdefault(name, value)
            self.revisions.setdefault(name, value[:REVISION])
        return found

    def get(self, names: Sequence[bytes]) -> list[Found]:
        raw, cached, missing = self.raw, self.engine.cache.found if self.keeps else {}, []
        found: list[Found] = []
        for name in names:
            if (value := raw.get(name)) is not None:
                if value:
                    found.append((name, value[REVISION:]))
            elif (one := cached.get(name)) is not None and (not self.tries or name in self.engine.here.compared):
                self.revisions[name], self.known[name] = one
                self._is_mixed = True
            else:
                missing.append(name)
        return found + super().get(missing) if missing else found

    def scan(self, start: bytes, end: bytes, limit: int, *, newest: bool = False) -> list[Found]:
        found = self.scanned(start, end, limit, newest=newest)
        self._questions += 2  # what a range holds is only true with what was read before if the commit says so
        for name, value in found:
            if self.revisions.setdefault(name, value[:REVISION]) != value[:REVISION]:
                self._newer[name] = value
        self.used.update([name for name, _ in found])
        if len(found) == limit and limit:
            start, end = (found[-1][0], end) if newest else (start, found[-1][0] + b"\x00")
        self._ranges.append((start, end, len(found)))
        return [(name, value[REVISION:]) for name, value in found]

    def refusal(self) -> None:
        """Return None: ``RedisStore.transact`` asks before and after the batch."""

    def commit(
        self,
        changed: Mapping[bytes, Any],
        entries: Sequence[Written],
        *,
        dropped: Collection[Entry] = (),
        durable: bool = False,
    ) -> None:
        engine, is_cluster = self.engine, self.engine.link.cluster
        revisions = self.revisions
        writes = bool(changed or entries or dropped)
        here = engine.here
        if (
            not writes
            and not here.ticket
            and not (durable and engine.link.syncs)
            and not self._is_mixed
            and self._questions <= 1
        ):
            here.forget()
            return
        names = [name for name in self.used if name in revisions]
        if self._newer:
            self._again(names, self._newer)
        if entries and entries[0].seq <= self.last and self.keeps and not self._injected:
            # What was read may be later than these entries. It need not be read again, since the commit compares it.
            self._again(names, {}, answers=self._answers)
        puts, gone = values(changed, entries)
        token = engine.token()
        of = engine.spaces.of
        if not is_cluster:
            self._send(of(SHARED), token, names, puts, gone, entries, dropped, durable)
        else:
            if self.keeps:  # facts of the whole store are on another server, so they are not compared
                names = [name for name in names if name[1:17] != SHARED]
            spaces = {name[1:17] for name in (*names, *puts, *gone)} | {digest(one.entry.namespace) for one in entries}
            for tag in engine.spaces.all() if dropped else sorted(map(of, spaces)):
                self._send(
                    tag,
                    token,
                    [name for name in names if of(name[1:17]) == tag],
                    {name: value for name, value in puts.items() if of(name[1:17]) == tag},
                    [name for name in gone if of(name[1:17]) == tag],
                    [one for one in entries if of(digest(one.entry.namespace)) == tag],
                    [one for one in dropped if of(digest(one.namespace)) == tag],
                    durable,
                )
        if dropped:
            engine.left(max(entry.seq for entry in dropped))
        if self.keeps:
            engine.cache.committed(self.known, self.revisions, changed, entries, token, token)
        else:
            engine.cache.drop(changed)
        if entries:
            self.last = entries[-1].seq
        here.forget()

    def _send(
        self,
        tag: str,
        token: bytes,
        names: Sequence[bytes],
        puts: Mapping[bytes, bytes],
        gone: Sequence[bytes],
        entries: Sequence[Written],
        dropped: Collection[Entry],
        durable: bool,
    ) -> None:
        """Run the script until it has an answer. Raises ``Overtaken``."""
        engine, here, link = self.engine, self.engine.here, self.engine.link
        engine.spaces.note(tag)
        rows = [part for one in entries for part in (one.seq, *described(one))]
        takes_ticket = self.tries >= _OVERTAKEN
        request: list[bytes | str | int] = [
            token,
            entries[0].seq if entries else self.now,
            len(entries),
            "" if not self.keeps else "last" if self._injected else "clock",
            LATE if link.cluster else _PAST,
            _AHEAD,
            link.channel,
            here.ticket,
            int(takes_ticket),
            _TICKET_TIME,
            int(durable and link.syncs),
        ]
        for part in (
            names,
            [self.revisions[name] for name in names],
            [item for one in self._ranges if tag in engine.spaces.within(one[0], one[1]) for item in one],
            [item for pair in puts.items() for item in pair],
            gone,
            rows,
            [entry.seq for entry in dropped],
            notices(entries) if self.keeps else (),
        ):
            request += (len(part), *part)
        until = time.monotonic() + deadline.PATIENCE
        while True:
            try:
                run = link.run_durable if durable else link.run
                code, clock, last, *more = run(COMMIT, f"{tag}j", tag, *request)
            except NotDurable as error:
                here.doubt = error  # ``sync`` says so, because it only matters if the change was written
                code, clock, last, *more = error.answer
            except InDoubt as error:
                raise Unconfirmed(
                    f"{link.error_of(error)}; the change was sent and never confirmed", reachable=False
                ) from error
            self.noted(clock, last)
            if not here.ticket and (code == _WAIT or (code == 0 and takes_ticket)):
                here.ticket, here.tag = b"%016d" % clock + token, tag
            if code != _WAIT or time.monotonic() > until:
                break
            request[_TICKET] = here.ticket
            time.sleep(min(0.002 * more[0], 0.1) * random.uniform(0.5, 1))  # noqa: S311 - it only spreads them
        if code == _WRITTEN:
            return
        engine.overtaken += 1
        if code == _TOO_EARLY:
            engine.server_time.update(clock, anew=True)
        changes = more if not code else []
        newer = {names[at]: value for at, value in zip(changes[::2], changes[1::2], strict=True)}
        self._again(names, newer, answers=self._answers if code == _TOO_EARLY else {})

    def _again(self, names: Sequence[bytes], newer: Mapping[bytes, bytes], answers: _Answers | None = None) -> NoReturn:
        """Let the steps run again, with what was read and what has changed since."""
        here = self.engine.here
        self.engine.cache.drop(newer)
        here.raw, here.compared, here.answers = {**self.raw, **newer}, frozenset(names), answers or {}
        self._runs_again = True
        raise Overtaken

    def rollback(self) -> None:
        here, client = self.engine.here, self.engine.link.client
        if not self._runs_again and here.ticket:
            with suppress(faults.RedisError, faults.RedisClusterException):  # the ticket expires by itself
                client.zrem(f"{here.tag}turn", here.ticket)
        if not self._runs_again:
            here.forget()
