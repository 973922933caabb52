"""Read records and journal of a Redis: each question is one script, and its answer is true of one moment."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from callosum.model import SECOND, Entry, Key
from callosum.stores.entry_rows import entry_of
from callosum.stores.names import digest
from callosum.stores.port import Found, Written
from callosum.stores.redis.connection import RedisConnection, Script

READ: Final = Script("read")
LATE: Final = 100_000
"""Microseconds by which a new entry may be in the past in a Redis Cluster; readers of all namespaces wait as long."""
PAGE: Final = 1_000
"""Number of records or entries that one script looks at, so that other clients are not kept waiting."""
REVISION: Final = 8
"""Bytes of a revision, in front of each value."""
SHARED: Final = digest("")
"""Stands for the namespace of facts, which in a cluster are on a server of their own."""
_encode: Final = msgspec.msgpack.Encoder().encode
_Row = tuple[str, str, str, int, str, int | None, str, str, str, tuple[Key, ...], str, bytes]
_row: Final = msgspec.msgpack.Decoder(_Row).decode


def position(seq: int) -> bytes:
    """Return an entry's position as it begins the entry's description."""
    return seq.to_bytes(8, "big")


def described(one: Written) -> tuple[bytes, bytes]:
    """Return what finds an entry in the journal, and its value.

    The description is the position, 16 bytes for the namespace, 8 each for the session and the first key, and whether
    a record belongs to the entry.
    """
    entry = one.whole()
    key = digest(entry.keys[0].name)[:8] if entry.keys else bytes(8)
    flag = b"a" if one.record is not None else b"-"
    value = _encode(
        (
            entry.event._value_,
            entry.namespace,
            entry.session,
            entry.action,
            entry.tool,
            entry.tier,
            entry.verdict._value_ if entry.verdict else "",
            entry.rule,
            entry.run,
            entry.keys,
            entry.outcome._value_ if entry.outcome else "",
            one.body,
        )
    )
    return b"".join((position(one.seq), digest(entry.namespace), digest(entry.session)[:8], key, flag)), value


def _entry(member: bytes, value: bytes) -> Entry:
    event, namespace, session, action, tool, tier, verdict, rule, run, keys, outcome, body = _row(value[REVISION:])
    seq = int.from_bytes(member[:8], "big")
    row = (seq, event, namespace, session, action, run, tool, tier, verdict, rule, outcome, None, body)
    return replace(entry_of(row), keys=keys)


class Spaces:
    """Where the records of a namespace are: on a single server all together, in a cluster a slot for each namespace."""

    def __init__(self, link: RedisConnection) -> None:
        self.link = link
        self._listed: set[str] = set()

    def of(self, space: bytes) -> str:
        """Return the beginning of the Redis keys for a namespace's 16 bytes."""
        return f"{self.link.prefix}:{{{space.hex()}}}:" if self.link.cluster else f"{self.link.prefix}:"

    def all(self) -> list[str]:
        """Return the beginnings for all namespaces."""
        if not self.link.cluster:
            return [f"{self.link.prefix}:"]
        found = self.link.client.smembers(f"{self.link.prefix}:namespaces")
        return sorted({self.of(SHARED), *(f"{self.link.prefix}:{{{name.decode()}}}:" for name in found)})

    def within(self, start: bytes, end: bytes) -> list[str]:
        """Return the beginnings for the namespaces of a range of names."""
        if not self.link.cluster or len(start) < 17:
            return self.all()
        top = int.from_bytes(start[:17], "big") + 1
        return [self.of(start[1:17])] if end <= top.to_bytes(17, "big") else self.all()

    def note(self, tag: str) -> None:
        """Note that a namespace has data, before it gets any."""
        if self.link.cluster and tag not in self._listed:
            self.link.client.sadd(f"{self.link.prefix}:namespaces", tag.rpartition("{")[2].rstrip("}:"))
            self._listed.add(tag)

    def forget(self) -> None:
        """List all namespaces again: a server that was replaced may have lost the list."""
        self._listed.clear()


class RedisReader:
    """A look that locks nothing. Each answer is true of its own moment."""

    used: set[bytes] | None = None

    def __init__(self, spaces: Spaces, clock: int | None, estimate: int = 0, last: int = 0) -> None:
        self.spaces = spaces
        self.known: dict[bytes, Any] = {}
        self.clock = estimate if clock is None else clock
        self.last = last
        self._injected = clock is not None
        self._has_looked = False

    def look(self) -> RedisReader:
        """Ask for the time; in a cluster for the latest of all namespaces."""
        for tag in self.spaces.all():
            self.ask(tag, "get")
        self._has_looked = True
        return self

    def ask(self, tag: str, verb: str, *more: Any) -> list[Any]:
        """Run the script that reads, and note the time in its answer."""
        answer: list[Any]
        clock, last, *answer = self.spaces.link.run(READ, f"{tag}j", tag, verb, *more)
        self.noted(clock, last)
        return answer

    def noted(self, clock: int, last: int) -> None:
        """Note the server's time."""
        if not self._injected:
            self.clock = max(self.clock, clock)
        self._has_looked = self._has_looked or not self.spaces.link.cluster
        self.last = max(self.last, last)

    @property
    def time(self) -> int:
        if not self._has_looked:
            self.look()
        return max(self.clock, self.last)

    @property
    def now(self) -> int:
        return max(self.clock, self.last + 1)

    def get(self, names: Sequence[bytes]) -> list[Found]:
        found = self.fetched(names)
        return [(name, value[REVISION:]) for name, value in found.items() if value]

    def fetched(self, names: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return records with their revisions in front, an empty value for one that is not there."""
        if not self.spaces.link.cluster:
            return dict(zip(names, self.ask(self.spaces.of(SHARED), "get", *names), strict=True))
        found: dict[bytes, bytes] = {}
        for space in {name[1:17] for name in names}:
            mine = [name for name in names if name[1:17] == space]
            found.update(zip(mine, self.ask(self.spaces.of(space), "get", *mine), strict=True))
        return found

    def scan(self, start: bytes, end: bytes, limit: int, *, newest: bool = False) -> list[Found]:
        return [(name, value[REVISION:]) for name, value in self.scanned(start, end, limit, newest=newest)]

    def scanned(self, start: bytes, end: bytes, limit: int, *, newest: bool = False) -> list[Found]:
        """Return the records of a range as ``scan`` does, with their revisions in front."""
        found: list[Found] = []
        tags = self.spaces.within(start, end)
        for tag in tags:
            low, high, more = start, end, limit
            while more > 0:
                names, *parts = self.ask(tag, "scan", low, high, min(more, PAGE), int(newest))
                found += zip(names, [value for part in parts for value in part], strict=True)
                if len(names) < min(more, PAGE):
                    break
                more -= len(names)
                low, high = (low, names[-1]) if newest else (names[-1] + b"\x00", high)
        if len(tags) > 1:
            found = sorted(found, reverse=newest)
        return [one for one in found[:limit] if one[1]]

    # --- The journal ---

    def bodies(self, namespace: str, ids: Sequence[int]) -> dict[int, bytes]:
        wanted = [id for id in ids if 0 < id < 1 << 63]
        if not wanted:
            return {}
        tag = self.spaces.of(digest(namespace))
        values = self.ask(tag, "bodies", *[position(id) for id in wanted])
        found = {}
        for id, value in zip(wanted, values, strict=True):
            row = _row(value[REVISION:]) if value else None
            if row is not None and row[1] == namespace and row[-1]:
                found[id] = row[-1]
        return found

    def opened(self, namespace: str, within: int, sessions: Collection[str] | None, limit: int) -> list[int]:
        space = digest(namespace)
        of = [digest(session)[:8] for session in sessions or ()]
        found = self.ask(self.spaces.of(space), "opened", within, space, limit, int(sessions is not None), *of)
        return [int.from_bytes(one, "big") for one in found]

    def count(self) -> int:
        return sum(int(self.spaces.link.client.zcard(f"{tag}j")) for tag in self.spaces.all())

    def page(
        self,
        after: int,
        limit: int,
        *,
        newest: bool = False,
        namespace: str | None = None,
        session: str | None = None,
        key: str | None = None,
        settled: bool = False,
    ) -> list[Entry]:
        spaces = self.spaces
        is_of_all = namespace is None and spaces.link.cluster
        ends = self._end_of_all() if settled and is_of_all and not newest else 0  # before a namespace can be missed
        tags = spaces.all() if namespace is None else [spaces.of(digest(namespace))]
        of = (namespace, session, key)
        found = [entry for tag in tags for entry in self._page(tag, after, limit, newest, ends, of, settled)]
        if len(tags) == 1:
            return found[::-1] if newest else found
        found.sort(key=lambda entry: entry.seq)
        if newest:
            return found[-limit:]
        # Two namespaces may share a moment: a reader that continues after it must have seen both.
        return [one for one in found if one.seq <= found[limit - 1].seq] if len(found) > limit > 0 else found

    def _end_of_all(self) -> int:
        """Return the position of the newest entry of a cluster, when none can appear before it any more.

        A later entry gets a later position on its own server, on others at most a tenth of a second earlier.
        """
        found = RedisReader(self.spaces, None).look()
        time.sleep(min(max(0, found.last + LATE - found.clock), LATE) / SECOND)
        return found.last

    def _page(
        self,
        tag: str,
        after: int,
        limit: int,
        newest: bool,
        ends: int,
        of: tuple[str | None, str | None, str | None],
        settled: bool,
    ) -> list[Entry]:
        """Return entries of one space, newest first with ``newest``."""
        namespace, session, key = of
        found: list[Entry] = []
        is_all = session is None and key is None and (namespace is None or self.spaces.link.cluster)
        high = ends
        while len(found) < limit:
            size = min(limit - len(found), PAGE) if is_all else PAGE
            members, *parts = self.ask(tag, "page", after, size, int(newest), high, int(settled))
            values = [value for part in parts for value in part]
            for member, value in zip(members, values, strict=True):
                if not value or not _is_of(member, namespace, session, key):
                    continue
                entry = _entry(member, value)
                if (
                    namespace in (None, entry.namespace)
                    and session in (None, entry.session)
                    and (key is None or entry.keys[0].name == key)
                ):
                    found.append(entry)
                    if len(found) == limit:
                        break
            if len(members) < size:
                break
            at = int.from_bytes(members[-1][:8], "big")
            after, high = (after, at - 1) if newest else (at, high)
        return found


def _is_of(member: bytes, namespace: str | None, session: str | None, key: str | None) -> bool:
    """Return True if an entry's description does not exclude it."""
    return (
        (namespace is None or member[8:24] == digest(namespace))
        and (session is None or member[24:32] == digest(session)[:8])
        and (key is None or member[32:40] == digest(key)[:8])
    )
