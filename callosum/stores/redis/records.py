"""What is kept in Redis of an action, of what a session knows of a key, and of a journal entry.

Ids stand in these as 16 digits, so that a transaction can leave room for its own: they are known for
certain only when it is applied (``OwnIds``).
"""

from __future__ import annotations

import secrets
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from callosum.model import Action, Content, Entry, Host, Key, Mark, State, Verdict
from callosum.stores.records import Record

KEPT: Final = 64
"""How many of a session's acts on a key are kept, for when the newest are taken back."""
_READS: Final = 32

_STATES: Final = {state.value: state for state in State}
_VERDICTS: Final = {verdict.value: verdict for verdict in Verdict}
encode: Final = msgspec.msgpack.Encoder().encode
_content_of: Final = msgspec.msgpack.Decoder(Content).decode
_entry_of: Final = msgspec.json.Decoder(Entry).decode
_encode_json: Final = msgspec.json.Encoder().encode


def text_of(data: bytes) -> msgspec.Raw:
    """Bytes as a text of MessagePack: a server's scripts know no other sort."""
    size = len(data)
    if size < 1 << 8:
        return msgspec.Raw(b"\xd9%c%b" % (size, data))
    return msgspec.Raw((b"\xda" + size.to_bytes(2) if size < 1 << 16 else b"\xdb" + size.to_bytes(4)) + data)


class OwnIds:
    """The ids that a transaction will have. ``name`` is its own, ``base`` the moment it hopes for and its first id.

    Where another moment will do as well, they are ``mark`` and six digits in what it writes, which no other text can
    contain but by guessing it; with ``mark`` ``""`` they stand as they are hoped for.
    """

    def __init__(self, name: str, base: int, mark: str = "") -> None:
        self.name = name
        self.base = base
        self.mark = mark
        self.count = 0

    def __call__(self, id: int) -> str:
        """An id as it is written."""
        at = id - self.base
        return f"{self.mark}{at:06d}" if self.mark and 0 <= at < self.count else f"{id:016d}"

    def told(self, text: bytes, moment: int) -> bytes:
        """What was written with these ids, as it is now that the first of them is ``moment``."""
        if self.mark:
            for at in range(self.count):
                text = text.replace(f"{self.mark}{at:06d}".encode(), f"{moment + at:016d}".encode())
        return text


def new_mark() -> str:
    """A mark that nobody can guess; with its six digits as long as an id."""
    return "".join(secrets.choice(string.ascii_letters) for _ in range(10))


class _Packed(Struct, array_like=True, gc=False):
    """A record as it is packed. Its first fields are read by scripts."""

    session: str
    keys: tuple[Key, ...]
    state: str
    tool: str
    tier: int
    ended: int
    expires: int
    limit: int
    run: str
    rule: str
    lock: bool
    host: tuple[Any, ...]
    content: bytes
    supersedes: tuple[str, ...]
    approved: int
    verdict: str
    opened: bool
    call: bytes
    prints: tuple[bytes, ...]
    params: bytes


_packed: Final = msgspec.msgpack.Decoder(_Packed).decode


def record_of(id: int, namespace: str, blob: bytes) -> Record:
    """What ``blob_of`` wrote."""
    one = _packed(memoryview(blob)[6 + int(blob[:6]) :])
    first = one.keys[0] if one.keys else Key("")
    action = Action(
        id,
        namespace,
        one.session,
        one.tool,
        one.tier,
        _STATES[one.state],
        id,
        one.ended,
        one.expires,
        one.limit,
        one.run,
        one.rule,
        one.lock,
        Host(*one.host) if one.host else None,
        None,
        _content_of(one.content),
        one.keys,
        first.name,
        first.mode,
        tuple([int(other) for other in one.supersedes]),
        one.approved,
        _VERDICTS[one.verdict],
    )
    return Record(action, one.opened, one.call, one.prints, one.params, one.content)


def blob_of(record: Record, own: Callable[[int], str] = "{:016d}".format) -> bytes:
    """A record as it is stored: in front, for ``look.lua``, whose it is, its keys and what it repeats."""
    action = record.action
    supersedes = tuple([own(other) for other in action.supersedes])
    host = action.host
    packed = _Packed(
        action.session,
        action.keys,
        action.state.value,
        action.tool,
        action.tier,
        action.ended,
        action.expires,
        action.limit,
        action.run,
        action.rule,
        action.lock,
        (host.pid, host.started, host.machine) if host is not None else (),
        record.raw or encode(action.content),
        supersedes,
        action.approved,
        action.verdict.value,
        record.opened,
        record.call,
        record.prints,
        record.params,
    )
    front = encode((action.session, [key.name for key in action.keys], supersedes))
    return b"%06d" % len(front) + front + encode(packed)


class KeyAction(Struct, array_like=True, gc=False):
    """One of a session's acts on a key. ``changed``: when that last changed the key; ``settled``: it has its report."""

    id: str
    tier: int
    mode: str
    changed: str
    settled: bool = False

    def covers(self, other: KeyAction) -> bool:
        """Whether whoever sees this need not see an older one."""
        return self.tier >= other.tier and self.mode in ("write", other.mode)


class KeyKnowledge(Struct, array_like=True, gc=False):
    """What a session knows of a key and did there. ``reads``: its looks, each with the action that looked."""

    read: int = 0
    notified: int = 0
    kind: int = 0
    notified_at: int = 0
    notified_call: bytes = b""
    notified_run: str = ""
    notified_before: int = 0
    notified_before_kind: int = 0
    pauses: tuple[int, ...] = ()
    reads: tuple[tuple[int, str], ...] = ()
    acts: tuple[KeyAction, ...] = ()

    @classmethod
    def of(cls, mark: Mark, reads: tuple[tuple[int, str], ...], acts: tuple[KeyAction, ...]) -> KeyKnowledge:
        """What a mark says, with the looks and acts beside it."""
        return cls(
            mark.read,
            mark.notified,
            mark.notified_kind,
            mark.notified_at,
            mark.notified_call,
            mark.notified_run,
            mark.notified_before,
            mark.notified_before_kind,
            mark.pauses,
            reads,
            acts,
        )

    @property
    def mark(self) -> Mark:
        """The session's mark."""
        return Mark(
            self.read,
            self.notified,
            self.kind,
            self.notified_at,
            self.notified_call,
            self.notified_run,
            self.notified_before,
            self.notified_before_kind,
            self.pauses,
        )

    def marked(self, mark: Mark, by: str) -> KeyKnowledge:
        """With another mark; ``by`` is the action that looked (sixteen zeros for none)."""
        reads = (*self.reads, (mark.read, by))[-_READS:] if mark.read > self.read else self.reads
        return KeyKnowledge.of(mark, reads, self.acts)

    def acted(self, act: KeyAction) -> KeyKnowledge:
        """With one act more, the newest. What it hides for good is forgotten."""
        kept: list[KeyAction] = [act]
        for older in self.acts:
            if not any(newer.settled and newer.covers(older) for newer in kept):
                kept.append(older)
        return replace(self, acts=tuple(kept[:KEPT]))

    def reported(self, act: KeyAction) -> KeyKnowledge:
        """With the report of an act; one that was forgotten comes back, unless a newer one hides it for good."""
        if any(one.id == act.id for one in self.acts):
            acts = [act if one.id == act.id else one for one in self.acts]
        elif any(one.id > act.id and one.settled and one.covers(act) for one in self.acts):
            return self
        else:
            acts = sorted((*self.acts, act), key=lambda one: one.id, reverse=True)
        return replace(self, acts=tuple(acts[:KEPT]))

    def without(self, id: str) -> KeyKnowledge:
        """Without what a failed or cancelled action did, or saw."""
        reads = tuple([read for read in self.reads if read[1] != id])
        read = self.read if reads == self.reads else max((read[0] for read in reads), default=0)
        return replace(self, read=read, reads=reads, acts=tuple([act for act in self.acts if act.id != id]))

    @property
    def changed(self) -> str:
        """The moment at which the session last changed the key, ``""`` if it did not."""
        return max((act.changed for act in self.acts), default="")

    def blob(self) -> bytes:
        """As it is stored: in front, for the scripts, which actions matter and the last look."""
        shown: list[KeyAction] = []
        for act in self.acts:
            if not any(newer.covers(act) for newer in shown):
                shown.append(act)
        return f"{','.join(act.id for act in shown)};{self.read};".encode() + encode(self)


_known: Final = msgspec.msgpack.Decoder(KeyKnowledge).decode
NOTHING: Final = KeyKnowledge()


def known_of(blob: bytes) -> KeyKnowledge:
    """What ``KeyKnowledge.blob`` wrote."""
    _, _, packed = blob.split(b";", 2)
    return _known(packed)


def line_of(entry: Entry) -> bytes:
    """An entry as the stream keeps it: JSON, without its place."""
    return _encode_json(entry)


def entry_of(id: bytes, fields: Mapping[bytes, bytes] | Sequence[bytes]) -> Entry:
    """The entry at a place of the stream. The field ``o`` holds one that is about itself; ``n`` is its transaction."""
    seq = int(id.partition(b"-")[0])
    name, line = next(iter(fields.items())) if isinstance(fields, Mapping) else fields[:2]
    entry = _entry_of(line)
    return replace(entry, seq=seq, action=seq if name == b"o" else entry.action)


def answer_in(line: bytes) -> bytes:
    """The answer that stands in the entry of a decision."""
    body = _entry_of(line).body
    return _encode_json(body) if body else b""
