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
    MarkRecord,
    Page,
    PastAction,
    SessionRecord,
    Sort,
    Stamp,
    chained,
    in_pages,
    kept,
)
from callosum.stores.keys import covers
from callosum.stores.records import ACTED, LIVE, Record
from callosum.stores.redis.connection import RedisConnection, Script
from callosum.stores.redis.names import NamespaceKeys
from callosum.stores.redis.records import KeyAction, KeyKnowledge, blob_of, entry_of, known_of, line_of, record_of
from callosum.stores.writes import opened

_STAMP: Final = Script("stamp")
_COUNT_EVERY: Final = 500
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
        positions: dict[str, int] = msgspec.json.decode(after) if after else {}
        for space in self._spaces():
            while rows := self._rows(space, positions.get(space.namespace, 0)):
                entries = [entry_of(id, fields) for id, fields in rows]
                positions[space.namespace] = entries[-1].seq
                records = self._records(space, [entry.seq for entry in entries])
                calls = sorted({record.call.hex() for record in records.values() if record.call})
                moments = self.link.client.zmscore(space.key("calls"), calls) if calls else []
                remembered = dict(zip(calls, moments, strict=True))
                page = []
                for entry in entries:
                    record = records.get(entry.seq)
                    action_record = _action_record(record, entry.seq, remembered) if record is not None else None
                    page.append(EntryRecord(entry, action_record))
                yield page, msgspec.json.encode(positions).decode()

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
            names = _without_repeats(self.link.client.scan_iter(pattern, count=PAGE))
            for page in in_pages(self._mark_rows(names, len(begin.encode()))):
                yield self._mark_records(space, page), ""

    def _mark_rows(self, names: Iterable[bytes], begin: int) -> Iterator[tuple[str, str, KeyKnowledge]]:
        for chunk in in_pages(names):
            with self.link.client.pipeline(transaction=False) as pipe:
                for name in chunk:
                    pipe.hgetall(name)
                for name, marks in zip(chunk, pipe.execute(), strict=True):
                    for session, blob in marks.items():
                        yield name[begin:].decode(), session.decode(), known_of(blob)

    def _mark_records(self, space: NamespaceKeys, docs: Sequence[tuple[str, str, KeyKnowledge]]) -> list[MarkRecord]:
        ids = {int(action.id) for _, _, knowledge in docs for action in knowledge.actions}
        ids |= {int(reader) for _, _, knowledge in docs for _, reader in knowledge.reads}
        records = self._records(space, sorted(ids.difference({0})))
        result = []
        for key, session, knowledge in docs:
            traces = [_trace(int(action.id), action.mode, records) for action in knowledge.actions]
            reads = sorted(knowledge.reads, reverse=True)
            if knowledge.read and (not reads or reads[0][0] != knowledge.read):
                reads = [(knowledge.read, _NOBODY)]
            result.append(
                MarkRecord(
                    space.namespace,
                    session,
                    key,
                    _normal_mark(knowledge.mark),
                    kept(trace for trace in traces if trace is not None),
                    chained(
                        [(read, int(reader) if _may_fail(records.get(int(reader))) else 0) for read, reader in reads]
                    ),
                )
            )
        return result

    def _prints(self) -> Iterator[Page]:
        for space in self._spaces():
            position = 0
            while members := self.link.client.zrange(space.key("prints"), position, position + PAGE - 1):
                position += len(members)
                prints = []
                for name, _, member in (print_.partition(b"\0") for print_ in members):
                    digest, id, _ = member.split(b":", 2)
                    prints.append(DigestRecord(space.namespace, name.decode(), bytes.fromhex(digest.decode()), int(id)))
                records = self._records(space, sorted({print_.id for print_ in prints}))
                yield [print_ for print_ in prints if _has_print(records.get(print_.id), print_.print)], ""

    def _sessions(self) -> Iterator[Page]:
        for space in self._spaces():
            position = 0
            while rows := self.link.client.zrange(space.key("seen"), position, position + PAGE - 1, withscores=True):
                position += len(rows)
                with self.link.client.pipeline(transaction=False) as pipe:
                    for name, _ in rows:
                        pipe.hmget(space.key("s", name.decode()), ["parent", "continues"])
                    kin = pipe.execute()
                yield (
                    [
                        SessionRecord(
                            space.namespace,
                            name.decode(),
                            int(last_seen),
                            *((value or b"").decode() for value in values),
                        )
                        for (name, last_seen), values in zip(rows, kin, strict=True)
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
        old = [written_entry.entry.seq for written_entry in written if written_entry.entry.seq <= top]
        before = self._records(space, old)
        for seq in old:
            if not self.link.client.xrange(space.key("log"), seq, seq):
                raise StoreError(
                    f"{self.name}: entry {seq} came late, behind {top}: empty the target (see docs/operations.md) and "
                    "copy again"
                )
        last = max(
            int(self.link.client.get(self._clock_of(space)) or 0),
            *(written_entry.entry.seq for written_entry in written),
        )
        count = int(self.link.client.get(space.key("count")) or 0)
        with self._pipe() as pipe:
            for id, record in before.items():
                self._unlist(pipe, space, id, record)
            for written_entry in sorted(written, key=lambda written_entry: written_entry.entry.seq):
                entry, seq = written_entry.entry, written_entry.entry.seq
                if seq > top:
                    own = entry.action == seq
                    line = line_of(replace(entry, seq=0, action=0 if own else entry.action))
                    pipe.xadd(space.key("log"), {"o" if own else "e": line}, id=f"{seq:016d}-0")
                    count += 1
                    if count % _COUNT_EVERY == 0:
                        pipe.zadd(space.key("stones"), {str(seq): count})
                if written_entry.act is not None:
                    self._list(pipe, space, seq, _record(written_entry, before.get(seq)))
            pipe.set(space.key("count"), count)
            pipe.set(self._clock_of(space), last)

    def _list(self, pipe: Any, space: NamespaceKeys, id: int, record: Record) -> None:
        """Add an action to the lists that find it, as ``change.ChangeWriter`` does."""
        digits, action = f"{id:016d}", record.action
        state = action.state
        pipe.hset(space.key("a"), digits, blob_of(record))
        if action.keys:
            pipe.zadd(space.key("t", action.session), {digits: id})
        if not record.opened:
            return
        pipe.zadd(space.key("ids"), {digits: id})
        if record.call:
            pipe.zadd(space.key("calls"), {record.call.hex(): id})
        covering = {cover for key in action.keys for cover in covers(key.name)}
        if covering:
            pipe.sadd(space.key("cov"), *covering)
        if state in LIVE:
            pipe.zadd(space.key("open"), {digits: id})
            for key in action.keys:
                pipe.zadd(space.key("n" if state is State.UNKNOWN else "l", key.name), {digits: id})
                pipe.zadd(space.key("live"), {key.name: 0})
        if state is State.QUEUED:
            pipe.zadd(space.key("q"), {digits: id})
        elif state in (State.OPEN, State.UNKNOWN):
            pipe.zadd(space.key("h", action.session), {digits: id})
        elif state is State.DONE and not action.ended:
            pipe.zadd(space.key("u", action.session), {digits: id})

    def _unlist(self, pipe: Any, space: NamespaceKeys, id: int, record: Record) -> None:
        digits = f"{id:016d}"
        for list_name in ("open", "q", "ids"):
            pipe.zrem(space.key(list_name), digits)
        for list_name in ("h", "u", "t"):
            pipe.zrem(space.key(list_name, record.action.session), digits)
        if record.call:
            pipe.zrem(space.key("calls"), record.call.hex())
        for key in record.action.keys:
            pipe.zrem(space.key("l", key.name), digits)
            pipe.zrem(space.key("n", key.name), digits)

    def _load_marks(self, space: NamespaceKeys, known: Sequence[MarkRecord]) -> None:
        ids = {id for mark in known for id in (*mark.acts, *(reader for _, reader in mark.looks if reader))}
        records = self._records(space, sorted(ids))
        names: dict[str, dict[str, KeyKnowledge]] = {}
        for mark in known:
            names.setdefault(mark.key, {})[mark.session] = _knowledge_of(mark, records)
        with self._pipe() as pipe:
            for name, docs in names.items():
                pipe.hset(
                    space.key("m", name), mapping={session: knowledge.blob() for session, knowledge in docs.items()}
                )
                if covering := covers(name):
                    pipe.sadd(space.key("cov"), *covering)
                for session, knowledge in docs.items():
                    pipe.zadd(space.key("sk", session), {name: 0})
                    if knowledge.actions:
                        pipe.zadd(space.key("names"), {name: 0})
                        pipe.zadd(space.key("c", name), {session: int(knowledge.changed)})
                        pipe.zadd(space.key("chg"), {name: int(knowledge.changed)}, gt=True)
                    else:
                        pipe.zrem(space.key("c", name), session)

    def _load_prints(self, space: NamespaceKeys, prints: Sequence[DigestRecord]) -> None:
        records = self._records(space, sorted({print_.id for print_ in prints}))
        with self._pipe() as pipe:
            for print_ in prints:
                record = records.get(print_.id)
                if record is None:
                    continue
                if print_.print not in record.prints:
                    record = records[print_.id] = replace(record, prints=(*record.prints, print_.print))
                member = f"{print_.print.hex()}:{print_.id:016d}:{record.action.session}"
                pipe.zadd(space.key("p", print_.key), {member: 0})
                commitment = record.action.content.commitment if print_.print == COMMITTED else None
                until = commitment.until if commitment is not None else print_.id  # upkeep forgets it by this moment
                pipe.zadd(space.key("prints"), {f"{print_.key}\0{member}": until})
            for id, record in records.items():
                pipe.hset(space.key("a"), f"{id:016d}", blob_of(record))

    def _load_sessions(self, space: NamespaceKeys, sessions: Sequence[SessionRecord]) -> None:
        with self._pipe() as pipe:
            for session in sessions:
                pipe.zadd(space.key("seen"), {session.name: session.seen})
                pipe.delete(space.key("s", session.name))
                origin = {
                    name: value
                    for name, value in (("parent", session.parent), ("continues", session.continues))
                    if value
                }
                if origin:
                    pipe.hset(space.key("s", session.name), mapping=origin)

    def drop(self, sort: Sort, records: Sequence[Any]) -> None:
        with self.link.explained():
            if sort is Sort.FACTS:
                for fact in records:
                    self.link.client.delete(f"{self.link.prefix}:{fact.name}")
                return
            for namespace, group in groupby(sorted(records, key=_namespace), key=_namespace):
                self._drop(sort, self._space(namespace), list(group))

    def _drop(self, sort: Sort, space: NamespaceKeys, dropped: Sequence[Any]) -> None:
        seqs = [item.entry.seq for item in dropped] if sort is Sort.JOURNAL else []
        records = self._records(space, seqs)
        with self._pipe() as pipe:
            for seq in seqs:
                pipe.xdel(space.key("log"), seq)
                pipe.hdel(space.key("a"), f"{seq:016d}")
            for id, record in records.items():
                self._unlist(pipe, space, id, record)
            for item in dropped:
                match item:
                    case MarkRecord():
                        pipe.hdel(space.key("m", item.key), item.session)
                        pipe.zrem(space.key("c", item.key), item.session)
                        pipe.zrem(space.key("sk", item.session), item.key)
                    case DigestRecord():
                        low, high = f"[{item.print.hex()}:{item.id:016d}:", f"({item.print.hex()}:{item.id:016d};"
                        for member in self.link.client.zrangebylex(space.key("p", item.key), low, high):
                            pipe.zrem(space.key("prints"), f"{item.key}\0".encode() + member)
                        pipe.zremrangebylex(space.key("p", item.key), low, high)
                    case SessionRecord():
                        pipe.zrem(space.key("seen"), item.name)
                        pipe.delete(space.key("s", item.name))

    # --- the stamp ---

    @property
    def _stamp_key(self) -> str:
        return f"{self.link.prefix}:copy"

    def stamp(self) -> Stamp | None:
        with self.link.explained():
            stamp = self.link.client.get(self._stamp_key)
        return msgspec.json.decode(stamp, type=Stamp) if stamp is not None else None

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


def _without_repeats(names: Iterable[bytes]) -> Iterator[bytes]:
    returned: set[bytes] = set()
    for name in names:
        if name not in returned:
            returned.add(name)
            yield name


def _namespace(record: Any) -> str:
    return str(record.entry.namespace if isinstance(record, EntryRecord) else record.namespace)


def _action_record(record: Record, id: int, remembered: Mapping[str, float | None]) -> ActionRecord:
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


def _record(written: EntryRecord, before: Record | None) -> Record:
    entry, stored = written.entry, written.act or ActionRecord(opened=False, state=State.ASKED)
    opening = Opening(
        stored.state, stored.expires, stored.limit, stored.host, stored.lock, stored.content, (), stored.supersedes
    )
    action = replace(opened(entry.seq, entry, opening), ended=stored.ended, approved=stored.approved)
    return Record(action, stored.opened, stored.call, before.prints if before is not None else (), stored.params)


def _trace(id: int, mode: str, records: Mapping[int, Record]) -> PastAction | None:
    record = records.get(id)
    if record is None or record.action.state not in ACTED:
        return None
    return PastAction(id, record.action.tier, mode, settled=_is_settled(record.action))


def _is_settled(action: Action) -> bool:
    return action.state is State.DONE and action.ended > 0


def _may_fail(record: Record | None) -> bool:
    return record is not None and record.opened and record.action.state in ACTED and not record.action.ended


def _has_print(record: Record | None, print_: bytes) -> bool:
    return record is not None and record.action.state in ACTED and print_ in record.prints


def _normal_mark(mark: Mark) -> Mark:
    """Return a mark as every store keeps it: an undated notification loses its details."""
    return mark if mark.notified_at else Mark(mark.read, mark.notified, mark.notified_kind)


def _knowledge_of(mark: MarkRecord, records: Mapping[int, Record]) -> KeyKnowledge:
    actions = []
    for id in mark.acts:
        record = records.get(id)
        key = next((key for key in record.action.keys if key.name == mark.key), None) if record is not None else None
        if record is None or key is None:
            continue
        settled = _is_settled(record.action)
        changed = record.action.ended if settled else id
        actions.append(KeyAction(f"{id:016d}", record.action.tier, key.mode.value, f"{changed:016d}", settled))
    reads = mark.looks or (((mark.mark.read, 0),) if mark.mark.read else ())
    return KeyKnowledge.of(
        mark.mark, tuple((read, f"{reader:016d}") for read, reader in reversed(reads)), tuple(actions)
    )
