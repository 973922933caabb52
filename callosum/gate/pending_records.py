"""Find whether pending records of the spool may be about a call.

::

    pending records ── one search for the call's keys ──> a few ── classify, compare ──> the call waits or does not
                                                     └──> too many to classify: it waits

The search may find too much, never too little. A classified record holds its keys. Another one holds the last part of
each key's name, if a rule takes keys from params as they are; otherwise, as a command line, it may be about anything.
"""

from __future__ import annotations

import json
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from typing import Final

import msgspec
import re2
from msgspec import Raw, Struct
from msgspec.structs import replace

from callosum.gate import spool_records
from callosum.model import MAX_KEY, NO_KEY, Key, Scope, State
from callosum.policy.call_facts import keys_of
from callosum.rulebook import Rulebook
from callosum.rules.lexicon import lists
from callosum.spool import MARK, Spool
from callosum.stores.base import Store
from callosum.stores.keys import covering
from callosum.worktree import located

MOST: Final = 200
"""Number of records that are classified for one decision. If the search finds more, the call waits without that."""
_PARAMS: Final = "|".join(lists.COMMAND_PARAMS).encode()
_UNPLAIN: Final = rb'[{\\~$|]|[^\x00-\x7f]|[/.] *"|[:,[] ?-?[0-9]+[.e]|"_|"(?:action|%s)"' % _PARAMS
"""Matches params that a key may hold in another form: nested, escaped, a tree, a fraction, a command line."""
_NULL: Final = Raw(b"null")


class _Record(Struct, gc=False):
    """What is read of a ``line``. A report or a cancellation ``ends`` an action by its id or by its actor."""

    call: dict[str, Raw]
    kind: str = spool_records.CALL
    found: Raw = _NULL
    line: bytes = b""
    offset: int = 0
    text: bytes = b""
    ends: tuple[int | None, str] | None = None


_DECODER: Final = msgspec.json.Decoder(_Record)


class PendingRecords:
    """The pending records of a state folder's spool. Usable from any thread."""

    def __init__(self, spool: Spool, rules: Rulebook, store: Store) -> None:
        self._spool = spool
        self._rules = rules
        self._store = store
        self._lock = threading.Lock()
        self._under: object = None
        self._data = b""
        """What was read, under the rules ``_under``; what is appended to it is read at the next look."""
        self._records: list[_Record] = []
        self._text = b""
        """The texts of the records, one a line: empty for a record that may be about anything."""

    def hold(self, scope: Scope, tool: str) -> bool:
        """Return True if a pending record may be about the keys of a call of ``tool``, or trees above or below them.

        A report or a cancellation is also about what its session has open.
        """
        with self._lock:
            data, taken = self._spool.pending()
            self._read(data)
            pending = (record for record in self._matching(scope.keys, tool) if record.offset >= taken)
            suspects = list(islice(pending, MOST + 1)) if data and scope.keys else []
            ending = [one.ends for one in self._records if one.ends is not None and one.offset >= taken]
        if ending:
            live = self._store.live(scope.namespace, (State.OPEN, State.UNKNOWN))
            ended = {name for one in live if _meet(one.keys, scope.keys) for name in (one.id, one.session)}
            if not ended.isdisjoint(name for names in ending for name in names):
                return True
        return len(suspects) > MOST or any(self._is_about(record.line, scope) for record in suspects)

    def _read(self, data: bytes) -> None:
        rules = self._rules.current()
        if self._under is not rules or not data.startswith(self._data):
            self._under, self._data, self._records = rules, b"", []
        plain = cache(lambda tool: rules.takes_keys_from_params(json.loads(tool)))
        at = len(self._data)
        for line in data[at:].split(b"\n"):
            if line and not line.startswith(MARK):
                self._records.append(_record(line, at, plain))
            at += len(line) + 1
        if len(data) != len(self._data) or not data:
            self._data, self._text = data, b"\n".join([record.text for record in self._records])

    def _matching(self, keys: tuple[Key, ...], tool: str) -> Iterator[_Record]:
        """Yield the records whose texts match. RE2 searches all texts for all alternatives at once."""
        pattern = re2.compile(rb"(?im)^$|^\{.+(?:%s)|%s" % (_UNPLAIN, _near(keys, tool)))
        row, at, last = 0, 0, -1
        for match in pattern.finditer(self._text):
            row += self._text.count(b"\n", at, match.start())
            at = match.start()
            if row != last:
                yield self._records[row]
            last = row

    def _is_about(self, line: bytes, scope: Scope) -> bool:
        try:
            (record,) = spool_records.records_of((line,))
            record = replace(record, call=located(record.call)) if record.found is None else record
            found = spool_records.classification_of(record, self._rules.current(), self._rules.fingerprint)
        except Exception:  # noqa: BLE001 - whoever enters the record says what is wrong with it
            return False
        return record.call.namespace == scope.namespace and _meet(keys_of(found, record.call.tool), scope.keys)


def _meet(keys: tuple[Key, ...], others: tuple[Key, ...]) -> bool:
    return any(one.name in covering(key.name) or key.name in covering(one.name) for key in keys for one in others)


def _record(line: bytes, offset: int, plain: Callable[[bytes], bool]) -> _Record:
    try:
        record = _DECODER.decode(line)
        record.line, record.offset, record.text, record.ends = line, offset, b"", None
        call = record.call
        tool = bytes(call["tool"])
        if record.found != _NULL or tool == b'"?"':  # with the id of an action alone
            record.text = b"#%s" % record.found
        elif "action" not in call and plain(tool):
            record.text = b"%s %s %s" % (call.get("params", b"{}"), call.get("cwd", b""), tool)
        if record.kind != spool_records.CALL:
            whole = spool_records.decode(line)
            record.ends = whole.id, whole.call.actor
    except (msgspec.MsgspecError, KeyError):
        return _Record({}, line=line, offset=offset)  # about anything, until it is read as a whole
    return record


def _near(keys: tuple[Key, ...], tool: str) -> bytes:
    """Return a pattern that matches at least the texts of records about one of the keys, of a call of ``tool``."""
    literals, words = [], []
    for key in keys:
        for name in covering(key.name):
            ends = ("",) if name == key.name and name[-1] == "/" else ('"', "|")
            literals += [json.dumps(name, ensure_ascii=ascii)[:-1] + end for ascii in (True, False) for end in ends]
        name = key.name.partition("|")[0].rstrip("/")
        last = name[max(name.rfind(mark) for mark in "/:@") + 1 :]
        if name.startswith(NO_KEY):  # the digest of a call without keys, and of its tool
            last = tool
            literals.append(b64encode(bytes.fromhex(name[len(NO_KEY) :])).decode())
        elif not last.isascii() or len(name) > MAX_KEY // 2 or name[:4] == "url:" or "[redacted" in name:
            last = ""  # the params may spell it in another way
        words.append(re2.escape(last))
    bounds = "(?:%s)" if "" in words else "(?:^|[^0-9a-z_])(?:%s)(?:[^0-9a-z_]|$)"
    return "|".join((*map(re2.escape, literals), bounds % "|".join(words))).encode()
