"""Export the Redis store as records for another store, and import such records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from callosum.errors import StoreError
from callosum.model import Action, Mark, Opening, State
from callosum.policy.commitments import COMMITTED
from callosum.stores.export import (
    PAGE,
    ActionRecord,
    DigestRecord,
    EntryRecord,
    FactRecord,
    Page,
    PastAction,
    SessionRecord,
    Sort,
    Stamp,
    chained,
    in_pages,
    kept,
)
from callosum.stores.export import MarkRecord as KnownRecord
from callosum.stores.keys import covers
from callosum.stores.records import ACTED, LIVE, Record
from callosum.stores.redis import records
from callosum.stores.redis.connection import RedisConnection, Script
from callosum.stores.redis.names import NamespaceKeys
from callosum.stores.redis.records import KeyKnowledge, blob_of, entry_of, known_of, line_of, record_of
from callosum.stores.writes import opened

_STAMP: Final = Script("stamp")
_STONE: Final = 500
"""Number of journal entries after which ``apply.lua`` notes a moment."""
_NOBODY: Final = "0" * 16


class RedisExport:
    """Scan and load the store at ``url``."""

    def __init__(self, url: str) -> None:
        self.link = RedisConnection(url)

    @property
    def name(self) -> str:
        return f"redis {self.link.place} prefix={self.link.prefix}"

    def close(self) -> None:
        self.link.close()

    def _spaces(self) -> list[NamespaceKeys]:
        names = self.link.client.smembers(f"{self.link.prefix}:namespaces")
        return [NamespaceKeys(self.link.prefix, name) for name in sorted(name.decode() for name in names)]

    def _space(self, namespace: str) -> NamespaceKeys:
        return NamespaceKeys(self.link.prefix, namespace)

    def _clock_of(self, space: NamespaceKeys) -> str:
        return space.key("clock") if self.link.cluster else f"{self.link.prefix}:clock"

    @contextmanager
    def _pipe(self) -> Iterator[Any]:
        """Send commands together; outside a cluster they are applied together too."""
        with self.link.client.pipeline(transaction=not self.link.cluster) as pipe:
            yield pipe
            pipe.execute()

    def newest(self) -> int:
        with self.link.explained():
            tops = [self._top(space) for space in self._spaces()]
        return max(tops, default=0)

    def _top(self, space: NamespaceKeys) -> int:
        rows = self.link.client.xrevrange(space.key("log"), count=1)
        return int(rows[0][0].partition(b"-")[0]) if rows else 0

    def empty(self) -> bool:
        with self.link.explained():
            return not self._spaces()

    # --- out ---

    def scan(self, sort: Sort, after: str = "") -> Iterator[Page]:
        pages = self._journal(after) if sort is Sort.JOURNAL else _SCAN[sort](self)
        while True:
            with self.link.explained():
                page = next(pages, None)
            if page is None:
                return
            yield page

    def _journal(self, after: str) -> Iterator[Page]:
        """Yield pages of entries; each page comes with the position in every namespace, as JSON."""
        at: dict[str, int] = msgspec.json.decode(after) if after else {}
        for space in self._spaces():
            while rows := self._rows(space, at.get(space.namespace, 0)):
                entries = [entry_of(id, fields) for id, fields in rows]
                at[space.namespace] = entries[-1].seq
                found = self._records(space, [entry.seq for entry in entries])
                calls = sorted({record.call.hex() for record in found.values() if record.call})
                moments = self.link.client.zmscore(space.key("calls"), calls) if calls else []
                remembered = dict(zip(calls, moments, strict=True))
                page = []
                for entry in entries:
                    record = found.get(entry.seq)
                    act = _act(record, entry.seq, remembered) if record is not None else None
                    page.append(EntryRecord(entry, act))
                yield page, msgspec.json.encode(at).decode()

    def _rows(self, space: NamespaceKeys, after: int) -> list[Any]:
        rows: list[Any] = self.link.client.xrange(space.key("log"), f"({after}-0" if after else "-", "+", PAGE)
        return rows

    def _records(self, space: NamespaceKeys, ids: Iterable[int]) -> dict[int, Record]:
        wanted = list(ids)
        if not wanted:
            return {}
        blobs = self.link.client.hmget(space.key("a"), [f"{id:016d}" for id in wanted])
        return {
            id: record_of(id, space.namespace, blob) for id, blob in zip(wanted, blobs, strict=True) if blob is not None
        }

    def _marks(self) -> Iterator[Page]:
        """Scan all keys of the server. SCAN may return a key twice, so the names are remembered."""
        for space in self._spaces():
            begin = space.key("m", "").rstrip(":") + ":"
            pattern = "".join(f"\\{sign}" if sign in "[]*?^-\\" else sign for sign in begin) + "*"
            names = _once(self.link.client.scan_iter(pattern, count=PAGE))
            for page in in_pages(self._docs(names, len(begin.encode()))):
                yield self._known(space, page), ""

    def _docs(self, names: Iterable[bytes], begin: int) -> Iterator[tuple[str, str, KeyKnowledge]]:
        for some in in_pages(names):
            with self.link.client.pipeline(transaction=False) as pipe:
                for name in some:
                    pipe.hgetall(name)
                for name, found in zip(some, pipe.execute(), strict=True):
                    for session, blob in found.items():
                        yield name[begin:].decode(), session.decode(), known_of(blob)

    def _known(self, space: NamespaceKeys, docs: Sequence[tuple[str, str, KeyKnowledge]]) -> list[KnownRecord]:
        ids = {int(act.id) for _, _, known in docs for act in known.acts}
        ids |= {int(by) for _, _, known in docs for _, by in known.reads}
        found = self._records(space, sorted(ids.difference({0})))
        result = []
        for key, session, known in docs:
            traces = [_trace(int(act.id), act.mode, found) for act in known.acts]
            looks = sorted(known.reads, reverse=True)
            if known.read and (not looks or looks[0][0] != known.read):
                looks = [(known.read, _NOBODY)]
            result.append(
                KnownRecord(
                    space.namespace,
                    session,
                    key,
                    _shown(known.mark),
                    kept(trace for trace in traces if trace is not None),
                    chained([(read, int(by) if _may_fail(found.get(int(by))) else 0) for read, by in looks]),
                )
            )
        return result

    def _prints(self) -> Iterator[Page]:
        for space in self._spaces():
            place = 0
            while members := self.link.client.zrange(space.key("prints"), place, place + PAGE - 1):
                place += len(members)
                prints = []
                for name, _, member in (one.partition(b"\0") for one in members):
                    digest, id, _ = member.split(b":", 2)
                    prints.append(DigestRecord(space.namespace, name.decode(), bytes.fromhex(digest.decode()), int(id)))
                found = self._records(space, sorted({print_.id for print_ in prints}))
                yield [one for one in prints if _found_by(found.get(one.id), one.print)], ""

    def _sessions(self) -> Iterator[Page]:
        for space in self._spaces():
            place = 0
            while rows := self.link.client.zrange(space.key("seen"), place, place + PAGE - 1, withscores=True):
                place += len(rows)
                with self.link.client.pipeline(transaction=False) as pipe:
                    for name, _ in rows:
                        pipe.hmget(space.key("s", name.decode()), ["parent", "continues"])
                    kin = pipe.execute()
                yield (
                    [
                        SessionRecord(
                            space.namespace, name.decode(), int(seen), *((value or b"").decode() for value in mine)
                        )
                        for (name, seen), mine in zip(rows, kin, strict=True)
                    ],
                    "",
                )

    def _facts(self) -> Iterator[Page]:
        until = self.link.client.get(f"{self.link.prefix}:observe")
        yield ([FactRecord("observe", int(until))] if until is not None else []), ""

    # --- in ---

    def load(self, sort: Sort, records: Sequence[Any]) -> None:
        with self.link.explained():
            if sort is Sort.FACTS:
                for fact in records:
                    self.link.client.set(f"{self.link.prefix}:{fact.name}", fact.value)
                return
            for namespace, group in groupby(sorted(records, key=_namespace), key=_namespace):
                self.link.client.sadd(f"{self.link.prefix}:namespaces", namespace)
                _LOAD[sort](self, self._space(namespace), list(group))

    def _load_journal(self, space: NamespaceKeys, written: Sequence[EntryRecord]) -> None:
        top = self._top(space)
        old = [one.entry.seq for one in written if one.entry.seq <= top]
        before = self._records(space, old)
        for seq in old:
            if not self.link.client.xrange(space.key("log"), seq, seq):
                raise StoreError(
                    f"{self.name}: entry {seq} came late, behind {top}: empty the target (see docs/operations.md) and "
                    "copy again"
                )
        last = max(int(self.link.client.get(self._clock_of(space)) or 0), *(one.entry.seq for one in written))
        count = int(self.link.client.get(space.key("count")) or 0)
        with self._pipe() as pipe:
            for id, record in before.items():
                self._unlist(pipe, space, id, record)
            for one in sorted(written, key=lambda one: one.entry.seq):
                entry, seq = one.entry, one.entry.seq
                if seq > top:
                    own = entry.action == seq
                    line = line_of(replace(entry, seq=0, action=0 if own else entry.action))
                    pipe.xadd(space.key("log"), {"o" if own else "e": line}, id=f"{seq:016d}-0")
                    count += 1
                    if count % _STONE == 0:
                        pipe.zadd(space.key("stones"), {str(seq): count})
                if one.act is not None:
                    self._list(pipe, space, seq, _record(one, before.get(seq)))
            pipe.set(space.key("count"), count)
            pipe.set(self._clock_of(space), last)

    def _list(self, pipe: Any, space: NamespaceKeys, id: int, record: Record) -> None:
        """Add an action to the lists that find it, as ``change.ChangeWriter`` does."""
        at, action = f"{id:016d}", record.action
        state = action.state
        pipe.hset(space.key("a"), at, blob_of(record))
        if action.keys:
            pipe.zadd(space.key("t", action.session), {at: id})
        if not record.opened:
            return
        pipe.zadd(space.key("ids"), {at: id})
        if record.call:
            pipe.zadd(space.key("calls"), {record.call.hex(): id})
        beneath = {over for key in action.keys for over in covers(key.name)}
        if beneath:
            pipe.sadd(space.key("cov"), *beneath)
        if state in LIVE:
            pipe.zadd(space.key("open"), {at: id})
            for key in action.keys:
                pipe.zadd(space.key("n" if state is State.UNKNOWN else "l", key.name), {at: id})
                pipe.zadd(space.key("live"), {key.name: 0})
        if state is State.QUEUED:
            pipe.zadd(space.key("q"), {at: id})
        elif state in (State.OPEN, State.UNKNOWN):
            pipe.zadd(space.key("h", action.session), {at: id})
        elif state is State.DONE and not action.ended:
            pipe.zadd(space.key("u", action.session), {at: id})

    def _unlist(self, pipe: Any, space: NamespaceKeys, id: int, record: Record) -> None:
        at = f"{id:016d}"
        for place in ("open", "q", "ids"):
            pipe.zrem(space.key(place), at)
        for place in ("h", "u", "t"):
            pipe.zrem(space.key(place, record.action.session), at)
        if record.call:
            pipe.zrem(space.key("calls"), record.call.hex())
        for key in record.action.keys:
            pipe.zrem(space.key("l", key.name), at)
            pipe.zrem(space.key("n", key.name), at)

    def _load_marks(self, space: NamespaceKeys, known: Sequence[KnownRecord]) -> None:
        ids = {id for one in known for id in (*one.acts, *(by for _, by in one.looks if by))}
        found = self._records(space, sorted(ids))
        names: dict[str, dict[str, KeyKnowledge]] = {}
        for one in known:
            names.setdefault(one.key, {})[one.session] = _doc(one, found)
        with self._pipe() as pipe:
            for name, docs in names.items():
                pipe.hset(space.key("m", name), mapping={session: doc.blob() for session, doc in docs.items()})
                if beneath := covers(name):
                    pipe.sadd(space.key("cov"), *beneath)
                for session, doc in docs.items():
                    pipe.zadd(space.key("sk", session), {name: 0})
                    if doc.acts:
                        pipe.zadd(space.key("names"), {name: 0})
                        pipe.zadd(space.key("c", name), {session: int(doc.changed)})
                        pipe.zadd(space.key("chg"), {name: int(doc.changed)}, gt=True)
                    else:
                        pipe.zrem(space.key("c", name), session)

    def _load_prints(self, space: NamespaceKeys, prints: Sequence[DigestRecord]) -> None:
        found = self._records(space, sorted({print_.id for print_ in prints}))
        with self._pipe() as pipe:
            for one in prints:
                record = found.get(one.id)
                if record is None:
                    continue
                if one.print not in record.prints:
                    record = found[one.id] = replace(record, prints=(*record.prints, one.print))
                member = f"{one.print.hex()}:{one.id:016d}:{record.action.session}"
                pipe.zadd(space.key("p", one.key), {member: 0})
                made = record.action.content.commitment if one.print == COMMITTED else None
                until = made.until if made is not None else one.id  # upkeep forgets it by this moment
                pipe.zadd(space.key("prints"), {f"{one.key}\0{member}": until})
            for id, record in found.items():
                pipe.hset(space.key("a"), f"{id:016d}", blob_of(record))

    def _load_sessions(self, space: NamespaceKeys, sessions: Sequence[SessionRecord]) -> None:
        with self._pipe() as pipe:
            for one in sessions:
                pipe.zadd(space.key("seen"), {one.name: one.seen})
                pipe.delete(space.key("s", one.name))
                origin = {
                    name: value for name, value in (("parent", one.parent), ("continues", one.continues)) if value
                }
                if origin:
                    pipe.hset(space.key("s", one.name), mapping=origin)

    def drop(self, sort: Sort, records: Sequence[Any]) -> None:
        with self.link.explained():
            if sort is Sort.FACTS:
                for fact in records:
                    self.link.client.delete(f"{self.link.prefix}:{fact.name}")
                return
            for namespace, group in groupby(sorted(records, key=_namespace), key=_namespace):
                self._drop(sort, self._space(namespace), list(group))

    def _drop(self, sort: Sort, space: NamespaceKeys, gone: Sequence[Any]) -> None:
        seqs = [one.entry.seq for one in gone] if sort is Sort.JOURNAL else []
        found = self._records(space, seqs)
        with self._pipe() as pipe:
            for seq in seqs:
                pipe.xdel(space.key("log"), seq)
                pipe.hdel(space.key("a"), f"{seq:016d}")
            for id, record in found.items():
                self._unlist(pipe, space, id, record)
            for one in gone:
                match one:
                    case KnownRecord():
                        pipe.hdel(space.key("m", one.key), one.session)
                        pipe.zrem(space.key("c", one.key), one.session)
                        pipe.zrem(space.key("sk", one.session), one.key)
                    case DigestRecord():
                        low, high = f"[{one.print.hex()}:{one.id:016d}:", f"({one.print.hex()}:{one.id:016d};"
                        for member in self.link.client.zrangebylex(space.key("p", one.key), low, high):
                            pipe.zrem(space.key("prints"), f"{one.key}\0".encode() + member)
                        pipe.zremrangebylex(space.key("p", one.key), low, high)
                    case SessionRecord():
                        pipe.zrem(space.key("seen"), one.name)
                        pipe.delete(space.key("s", one.name))

    # --- the stamp ---

    @property
    def _stamp_key(self) -> str:
        return f"{self.link.prefix}:copy"

    def stamp(self) -> Stamp | None:
        with self.link.explained():
            found = self.link.client.get(self._stamp_key)
        return msgspec.json.decode(found, type=Stamp) if found is not None else None

    def put_stamp(self, stamp: Stamp) -> None:
        with self.link.explained():
            self.link.run_durable(_STAMP, self._stamp_key, msgspec.json.encode(stamp))


_SCAN: Final[Mapping[Sort, Callable[[RedisExport], Iterator[Page]]]] = {
    Sort.MARKS: RedisExport._marks,  # noqa: SLF001 - this module's own
    Sort.PRINTS: RedisExport._prints,  # noqa: SLF001
    Sort.SESSIONS: RedisExport._sessions,  # noqa: SLF001
    Sort.FACTS: RedisExport._facts,  # noqa: SLF001
}
_LOAD: Final[Mapping[Sort, Callable[[RedisExport, NamespaceKeys, Sequence[Any]], None]]] = {
    Sort.JOURNAL: RedisExport._load_journal,  # noqa: SLF001 - this module's own
    Sort.MARKS: RedisExport._load_marks,  # noqa: SLF001
    Sort.PRINTS: RedisExport._load_prints,  # noqa: SLF001
    Sort.SESSIONS: RedisExport._load_sessions,  # noqa: SLF001
}


def _once(names: Iterable[bytes]) -> Iterator[bytes]:
    seen: set[bytes] = set()
    for name in names:
        if name not in seen:
            seen.add(name)
            yield name


def _namespace(record: Any) -> str:
    return str(record.entry.namespace if isinstance(record, EntryRecord) else record.namespace)


def _act(record: Record, id: int, remembered: Mapping[str, float | None]) -> ActionRecord:
    action = record.action
    return ActionRecord(
        opened=record.opened,
        state=action.state,
        ended=action.ended,
        expires=action.expires,
        limit=action.limit,
        lock=action.lock,
        host=action.host,
        content=action.content,
        supersedes=action.supersedes,
        approved=action.approved,
        call=record.call if remembered.get(record.call.hex()) == id else b"",
        params=record.params if action.state is State.ASKED and record.opened else b"",
    )


def _record(one: EntryRecord, before: Record | None) -> Record:
    entry, act = one.entry, one.act or ActionRecord(opened=False, state=State.ASKED)
    opening = Opening(act.state, act.expires, act.limit, act.host, act.lock, act.content, (), act.supersedes)
    action = replace(opened(entry.seq, entry, opening), ended=act.ended, approved=act.approved)
    return Record(action, act.opened, act.call, before.prints if before is not None else (), act.params)


def _trace(id: int, mode: str, found: Mapping[int, Record]) -> PastAction | None:
    record = found.get(id)
    if record is None or record.action.state not in ACTED:
        return None
    return PastAction(id, record.action.tier, mode, settled=_is_settled(record.action))


def _is_settled(action: Action) -> bool:
    return action.state is State.DONE and action.ended > 0


def _may_fail(record: Record | None) -> bool:
    return record is not None and record.opened and record.action.state in ACTED and not record.action.ended


def _found_by(record: Record | None, print_: bytes) -> bool:
    return record is not None and record.action.state in ACTED and print_ in record.prints


def _shown(mark: Mark) -> Mark:
    """Return a mark as every store keeps it: an undated notification loses its details."""
    return mark if mark.notified_at else Mark(mark.read, mark.notified, mark.notified_kind)


def _doc(one: KnownRecord, found: Mapping[int, Record]) -> KeyKnowledge:
    acts = []
    for id in one.acts:
        record = found.get(id)
        key = next((key for key in record.action.keys if key.name == one.key), None) if record is not None else None
        if record is None or key is None:
            continue
        settled = _is_settled(record.action)
        changed = record.action.ended if settled else id
        acts.append(records.KeyAction(f"{id:016d}", record.action.tier, key.mode.value, f"{changed:016d}", settled))
    looks = one.looks or (((one.mark.read, 0),) if one.mark.read else ())
    return KeyKnowledge.of(one.mark, tuple((read, f"{by:016d}") for read, by in reversed(looks)), tuple(acts))
