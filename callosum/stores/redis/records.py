"""Encode actions, sessions' knowledge of keys, and journal entries for Redis.

Ids are written as 16 digits, so that a transaction can leave room for its own ids, which are certain only once it
is applied (``OwnIds``).
"""

from __future__ import annotations

import secrets
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import astuple, replace

from callosum.model import Action, Content, Entry, Host, Key, Mark, State, Verdict
from callosum.stores.records import Record

KEPT: Final = 64
"""Number of a session's actions on a key that are kept, in case the newest ones are undone."""
_READS: Final = 32

_STATES: Final = {state.value: state for state in State}
_VERDICTS: Final = {verdict.value: verdict for verdict in Verdict}
encode: Final = msgspec.msgpack.Encoder().encode
_content_of: Final = msgspec.msgpack.Decoder(Content).decode
_entry_of: Final = msgspec.json.Decoder(Entry).decode
_encode_json: Final = msgspec.json.Encoder().encode


def text_of(data: bytes) -> msgspec.Raw:
    """Return bytes as a MessagePack text, the only kind that a server's scripts can read."""
    size = len(data)
    if size < 1 << 8:
        return msgspec.Raw(b"\xd9%c%b" % (size, data))
    return msgspec.Raw((b"\xda" + size.to_bytes(2) if size < 1 << 16 else b"\xdb" + size.to_bytes(4)) + data)


class OwnIds:
    """The ids that a transaction will get. ``name``: its own name. ``base``: its expected moment and first id.

    If a later moment is acceptable, ids are written as ``mark`` and six digits, a text that occurs elsewhere only if
    somebody guesses it, and ``apply.lua`` fills in the real ids. With an empty ``mark`` the expected ids are written.
    """

    def __init__(self, name: str, base: int, mark: str = "") -> None:
        self.name = name
        self.base = base
        self.mark = mark
        self.count = 0

    def __call__(self, id: int) -> str:
        """Return an id as it is written."""
        at = id - self.base
        return f"{self.mark}{at:06d}" if self.mark and 0 <= at < self.count else f"{id:016d}"

    def with_real_ids(self, text: bytes, moment: int) -> bytes:
        """Return a written text with the real ids, of which the first is ``moment``."""
        if self.mark:
            for at in range(self.count):
                text = text.replace(f"{self.mark}{at:06d}".encode(), f"{moment + at:016d}".encode())
        return text


def new_mark() -> str:
    """Return a mark that nobody can guess; with six digits it is as long as an id."""
    return "".join(secrets.choice(string.ascii_letters) for _ in range(10))


class _Packed(Struct, array_like=True, gc=False):
    """A record as it is packed. Scripts read its first fields."""

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
    """Decode what ``blob_of`` wrote."""
    packed = _packed(memoryview(blob)[6 + int(blob[:6]) :])
    first = packed.keys[0] if packed.keys else Key("")
    action = Action(
        id,
        namespace,
        packed.session,
        packed.tool,
        packed.tier,
        _STATES[packed.state],
        id,
        packed.ended,
        packed.expires,
        packed.limit,
        packed.run,
        packed.rule,
        packed.lock,
        Host(*packed.host) if packed.host else None,
        None,
        _content_of(packed.content),
        packed.keys,
        first.name,
        first.mode,
        tuple([int(other) for other in packed.supersedes]),
        packed.approved,
        _VERDICTS[packed.verdict],
    )
    return Record(action, packed.opened, packed.call, packed.prints, packed.params, packed.content)


def blob_of(record: Record, own: Callable[[int], str] = "{:016d}".format) -> bytes:
    """Encode a record. Session, keys and superseded actions come first, for ``read_view.lua``."""
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
    """A session's action on a key. ``changed``: moment at which it last changed the key. ``settled``: reported."""

    id: str
    tier: int
    mode: str
    changed: str
    settled: bool = False

    def covers(self, other: KeyAction) -> bool:
        """Return True if this action makes an older one irrelevant."""
        return self.tier >= other.tier and self.mode in ("write", other.mode)


class KeyKnowledge(Mark, frozen=True, array_like=True, gc=False):
    """What a session has seen of a key and done on it. ``reads``: its reads, each with the action that read."""

    reads: tuple[tuple[int, str], ...] = ()
    actions: tuple[KeyAction, ...] = ()

    @classmethod
    def of(cls, mark: Mark, reads: tuple[tuple[int, str], ...], actions: tuple[KeyAction, ...]) -> KeyKnowledge:
        """Combine a mark with the session's reads and actions."""
        return cls(*(*astuple(mark), reads, actions))

    @property
    def mark(self) -> Mark:
        """Return the session's mark."""
        return Mark(*astuple(self)[: len(Mark.__struct_fields__)])

    def marked(self, mark: Mark, by: str) -> KeyKnowledge:
        """Return a copy with another mark. ``by``: the action that read, sixteen zeros if none did."""
        reads = (*self.reads, (mark.read, by))[-_READS:] if mark.read > self.read else self.reads
        return KeyKnowledge.of(mark, reads, self.actions)

    def acted(self, action: KeyAction) -> KeyKnowledge:
        """Return a copy with a new newest action. Actions that it makes irrelevant for good are dropped."""
        kept_actions: list[KeyAction] = [action]
        for older in self.actions:
            if not any(newer.settled and newer.covers(older) for newer in kept_actions):
                kept_actions.append(older)
        return replace(self, actions=tuple(kept_actions[:KEPT]))

    def reported(self, action: KeyAction) -> KeyKnowledge:
        """Return a copy with an action's report. A dropped action returns unless a newer one makes it irrelevant."""
        if any(known.id == action.id for known in self.actions):
            actions = [action if known.id == action.id else known for known in self.actions]
        elif any(known.id > action.id and known.settled and known.covers(action) for known in self.actions):
            return self
        else:
            actions = sorted((*self.actions, action), key=lambda known: known.id, reverse=True)
        return replace(self, actions=tuple(actions[:KEPT]))

    def without(self, id: str) -> KeyKnowledge:
        """Return a copy without a failed or cancelled action and its reads."""
        reads = tuple([read for read in self.reads if read[1] != id])
        read = self.read if reads == self.reads else max((read[0] for read in reads), default=0)
        return replace(
            self, read=read, reads=reads, actions=tuple([action for action in self.actions if action.id != id])
        )

    @property
    def changed(self) -> str:
        """Return the moment at which the session last changed the key, ``""`` if it did not."""
        return max((action.changed for action in self.actions), default="")

    def blob(self) -> bytes:
        """Encode this. The relevant actions and the last read come first, for the scripts."""
        relevant: list[KeyAction] = []
        for action in self.actions:
            if not any(newer.covers(action) for newer in relevant):
                relevant.append(action)
        return f"{','.join(action.id for action in relevant)};{self.read};".encode() + encode(self)


_known: Final = msgspec.msgpack.Decoder(KeyKnowledge).decode
NOTHING: Final = KeyKnowledge()


def known_of(blob: bytes) -> KeyKnowledge:
    """Decode what ``KeyKnowledge.blob`` wrote."""
    _, _, packed = blob.split(b";", 2)
    return _known(packed)


def line_of(entry: Entry) -> bytes:
    """Encode an entry for the stream: JSON, without its position."""
    return _encode_json(entry)


def entry_of(id: bytes, fields: Mapping[bytes, bytes] | Sequence[bytes]) -> Entry:
    """Decode an entry of the stream. Field ``o`` holds an entry that opened an action; ``n`` names its transaction."""
    seq = int(id.partition(b"-")[0])
    name, line = next(iter(fields.items())) if isinstance(fields, Mapping) else fields[:2]
    entry = _entry_of(line)
    return replace(entry, seq=seq, action=seq if name == b"o" else entry.action)


def answer_in(line: bytes) -> bytes:
    """Return the answer stored in the entry of a decision."""
    body = _entry_of(line).body
    return _encode_json(body) if body else b""
