"""The receipt: the identity of a store and the newest entry it acknowledged, kept outside the store.

A store that was replaced, restored or truncated looks sound from inside. Only a record outside the store can tell that
acknowledged decisions are missing. The receipt is one small file on the gate's machine::

    magic       8 bytes
    identity    16 bytes, the random id of the store; zeros until the store is known
    entry       the newest entry that was durably acknowledged
    refused     1 while the store is refused

The file is mapped into memory, so noting an entry costs no system call. It is not synced: the kernel keeps it when a
process dies, and after a power failure it may claim less than was acknowledged, never more.
"""

from __future__ import annotations

import logging
import mmap
import os
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Final

from msgspec import Struct

from callosum.errors import StoreChanged
from callosum.model import Applied
from callosum.stores.base import Request

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows: two processes that create a receipt at once are not kept apart
    fcntl = None  # type: ignore[assignment]

IDENTITY: Final = "identity"
"""Name of the store's own id among its facts."""
LEFT: Final = "left"
"""Name of the newest entry that rotation removed, among the store's facts."""
ACCEPTED: Final = "accepted:"
"""Prefix of a receipt's id; the fact of that name is the time up to which a person accepted the receipt's losses."""
ADVICE: Final = "callosum store accept"
"""The command that accepts a changed store."""

_CHECK_EVERY: Final = 1.0
"""Seconds between two checks of the identity of a store whose connections have not changed."""
_ASK_AGAIN: Final = 0.2
"""Seconds between two checks whether a changed store was accepted."""
_logger: Final = logging.getLogger("callosum")
_MAGIC: Final = int.from_bytes(b"CALORCP1", "little")
_SIZE: Final = 64
_ID: Final = slice(8, 24)
_ENTRY, _REFUSED = 3, 4  # words of eight bytes
_UNKNOWN: Final = bytes(16)
_UNREADABLE: Final = b"\xff" * 16


def new_identity() -> str:
    """Return a random id for a new store."""
    return secrets.token_hex(16)


class HeldByStore(Struct, frozen=True):
    """What a store holds of the things that a receipt is compared with.

    ``identity`` is the store's id. ``missing`` is the receipt's entry, as it was when the store was asked, if the
    journal lacks it. ``left`` is the newest entry that rotation removed, ``accepted`` the time up to which a person
    accepted this receipt's losses; each is 0 if there is none.
    """

    identity: str
    missing: int
    left: int
    accepted: int


class Receipt:
    """A receipt in a file that all processes of a machine share, or, without a ``path``, of this process alone.

    Call ``attach`` before anything else; it raises ``OSError``.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._file = (0, 0)
        self._map: mmap.mmap | bytearray = bytearray(_SIZE)
        self._words = memoryview(self._map).cast("Q")
        self._words[0] = _MAGIC

    def attach(self) -> None:
        """Map the file if it is not mapped. Create it if it is absent, with what this process knows."""
        if self.path is None:
            return
        try:
            found = self.path.stat()
            if (found.st_dev, found.st_ino) == self._file:
                return
        except FileNotFoundError:
            pass
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if fcntl is not None:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.fstat(descriptor).st_size < _SIZE:
                os.pwrite(descriptor, bytes(self._map), 0)
            if fcntl is not None:
                fcntl.flock(descriptor, fcntl.LOCK_UN)  # closing is not enough: the map keeps a copy of the descriptor
            mapped = mmap.mmap(descriptor, _SIZE)
            found = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        identity, entry = self.identity, self.entry
        self._map, self._words = mapped, memoryview(mapped).cast("Q")
        if self.identity == identity:
            self._words[_ENTRY] = max(self._words[_ENTRY], entry)
        self._file = (found.st_dev, found.st_ino)
        if self._words[0] != _MAGIC:  # not a receipt, so it proves nothing
            mapped[_ID] = _UNREADABLE
            self._words[_REFUSED], self._words[0] = 1, _MAGIC

    @property
    def identity(self) -> str:
        """Return the id of the store that the receipt belongs to; ``""`` if it belongs to none yet."""
        found = bytes(self._map[_ID])
        return "" if found == _UNKNOWN else found.hex()

    @property
    def entry(self) -> int:
        """Return the newest entry that was acknowledged; 0 if there is none."""
        return self._words[_ENTRY]

    @property
    def name(self) -> str:
        """Return the name of the fact that holds what a person accepted of this receipt's losses."""
        return ACCEPTED + self.identity

    def acknowledge(self, entry: int) -> None:
        """Note an entry that is on disk. If several processes write at once, the receipt may claim less.

        Nothing is noted while the store is refused: a newer entry would hide that the one before it is missing.
        """
        words = self._words
        if not words[_REFUSED]:
            words[_ENTRY] = max(words[_ENTRY], entry)

    def begin(self, identity: str, entry: int = 0) -> None:
        """Make this the receipt of the store with that id."""
        self._words[_ENTRY] = entry
        self._map[_ID] = bytes.fromhex(identity)
        self._words[_REFUSED] = 0

    def refuse(self) -> None:
        """Note that the store lost something, whatever it holds at the next comparison."""
        self._words[_REFUSED] = 1

    def compare(self, held: HeldByStore, place: str) -> str:
        """Return why tiers 3 and 4 must be refused on a store that holds this; ``""`` if they need not be.

        A receipt that belongs to no store yet is bound to this one.
        """
        mine, entry = self.identity, held.missing or self.entry  # other threads may have acknowledged more meanwhile
        if not mine:
            self.begin(held.identity)
            return ""
        if held.accepted and held.accepted >= entry:
            self.begin(held.identity, entry if mine == held.identity and not held.missing else 0)
            return ""
        if mine != held.identity:
            reason = f"{place} is not the store that this gate worked with: it was replaced, or removed and made anew"
        elif held.missing > held.left:  # rotation did not remove it
            reason = f"{place} lacks entry {entry}, which was acknowledged: it was cut back or restored"
        else:
            self._words[_REFUSED] = 0
            return ""
        self._words[_REFUSED] = 1
        return reason


def refusal(reason: str) -> StoreChanged:
    """Return the error for a call of tier 3 or 4 on a store that was changed from outside."""
    return StoreChanged(f"{reason}. Calls of tiers 3 and 4 are refused until a person has looked and runs `{ADVICE}`")


class WatchedStore:
    """Compares a store over a network with its receipt: after each reconnect, and at intervals.

    ``held`` asks the store what it holds of the receipt, or only for its identity if ``entry`` is False. ``accept``
    stores that a person accepts what the receipt misses. ``epoch`` changes with every new connection.
    """

    def __init__(
        self,
        receipt: Receipt,
        place: str,
        held: Callable[[Receipt, bool], HeldByStore],
        accept: Callable[[str, int], None],
        epoch: Callable[[], int],
    ) -> None:
        self.receipt = receipt
        self.changed = ""
        self._place, self._held, self._accept, self._epoch = place, held, accept, epoch
        self._seen = -1
        self._next = 0.0
        self._lock = threading.Lock()

    def transact(
        self, requests: Sequence[Request], run: Callable[[Sequence[Request]], list[Applied | Exception]]
    ) -> list[Applied | Exception]:
        """Run a batch. On a changed store, run only the requests that need not be durable."""
        if not any(scope.durable for scope, _ in requests):
            return run(requests)
        if changed := self.check():
            rest = [request for request in requests if not request[0].durable]
            ran = iter(run(rest) if rest else [])
            return [refusal(changed) if scope.durable else next(ran) for scope, _ in requests]
        answers = run(requests)
        if changed := self.check():  # the connection was lost, or all data
            pairs = zip(requests, answers, strict=True)
            return [refusal(changed) if scope.durable else answer for (scope, _), answer in pairs]
        self.receipt.acknowledge(max((one.ids[-1] for one in answers if type(one) is Applied and one.ids), default=0))
        return answers

    def check(self, *, again: bool = False) -> str:
        """Return why tiers 3 and 4 are refused, ``""`` if they are not. ``again`` asks the store in any case."""
        epoch, now = self._epoch(), time.monotonic()
        if again or epoch != self._seen or now >= self._next:
            with self._lock:
                self.receipt.attach()
                whole = again or epoch != self._seen or bool(self.changed)
                changed = self.receipt.compare(self._held(self.receipt, whole), self._place)
                if changed != self.changed:
                    _logger.warning("%s", refusal(changed) if changed else f"{self._place} is used for all calls again")
                self.changed, self._seen = changed, epoch
                self._next = time.monotonic() + (_ASK_AGAIN if changed else _CHECK_EVERY)
        return self.changed

    def accept(self, now: int) -> str:
        """Accept the store as it is. Return what was wrong."""
        was = self.check(again=True)
        if was:
            self._accept(self.receipt.name, max(now, self.receipt.entry))
            self.check(again=True)
        return was


def receipt_of(state: Path | None, place: str) -> Receipt:
    """Return the receipt of a store over a network, kept in the state folder if there is one."""
    if state is None:
        return Receipt(None)
    folder = state / "stores"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return Receipt(folder / f"{blake2b(place.encode(), digest_size=16).hexdigest()}.receipt")
