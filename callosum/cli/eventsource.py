"""Read the events that ``callosum events`` shows: past ones, and new ones with ``--follow``.

Past events: ``tool.*``, ``safety.*`` and ``lease.*`` are made from the journal's entries, all others are read from the
daily log.
New events: a server's stream if one runs, else the journal. Both number their events alike, so either source can
continue after the last event of the other when a server starts or stops.
"""

from __future__ import annotations

import heapq
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from callosum.client.client import CallosumClient
from callosum.client.errors import BadResponse, TransportError
from callosum.client.messages import fault_of, quoted
from callosum.client.sse import Events
from callosum.client.transport import ResponseStream, Transport
from callosum.corpus import entry_events
from callosum.corpus.entry_events import events_of
from callosum.corpus.events import (
    CorpusEvent,
    encode,
)
from callosum.corpus.opening_calls import OpeningCalls
from callosum.errors import ConfigError, GateUnavailable
from callosum.journal import EntryFilter, fits
from callosum.model import SECOND, Entry
from callosum.server.listeners import running
from callosum.server.replay_buffer import PUBLISHED, end_of, id_of, position_of
from callosum.wire import BadRequest

if TYPE_CHECKING:
    from callosum.journal import Journal

JOURNALLED: Final = frozenset(kind.dotted for kind in entry_events.JOURNALLED)
"""The names of the events that entries of the journal stand for."""
DROPPED: Final = "stream.dropped"
"""What a server says to a reader that was too slow or away: ``count`` events are missing here (``atLeast``)."""
PAGE: Final = 1000
"""Of a server elsewhere, what was is looked for in so many entries of its journal."""
_NO_SERVER: Final = (
    "no server to ask: what comes is read from the journal, which has tool.*, safety.* and lease.*; "
    "what hosts report (llm.*, input.*, ...) and all the rest needs one (callosum serve)"
)
_PATIENCE: Final = 3.0
"""How long a server may take to begin its answer, in seconds."""
_AT_FIRST: Final = 2.0
"""What a server tells of before comes within so many seconds."""
_LOOK_EVERY: Final = 0.5
"""A server of this machine that is gone is looked for so often, in seconds."""
_BLOCK: Final = 65_536
_LONGEST: Final = 16_000_000
"""Bytes of the longest line of a log that is read."""
_DAY: Final = re.compile(r"(\d{4}-\d\d-\d\d)\.log\.md")


class ShownEvent(NamedTuple):
    """An event as it is shown: its dotted name and its payload in the words of the wire."""

    type: str
    payload: dict[str, Any]

    @property
    def at(self) -> float:
        """When it was, in Unix seconds; 0 if it does not say."""
        at = self.payload.get("at")
        return at if isinstance(at, int | float) else 0.0

    @classmethod
    def of(cls, event: CorpusEvent) -> ShownEvent:
        """Return an event of this process."""
        return cls(event.dotted, msgspec.json.decode(encode(event)))


class EventSelection(EntryFilter, frozen=True, kw_only=True):
    """Which events are wanted, and with them which entries; ``types`` None means all."""

    types: frozenset[str] | None = None

    def passes(self, entry: Entry) -> bool:
        """Whether the entry stands for an event that is wanted."""
        return EntryFilter.passes(self, entry) and any(
            self.types is None or event.dotted in self.types for event in events_of(entry)
        )

    def of(self, entry: Entry, calls: OpeningCalls) -> list[ShownEvent]:
        """Return the wanted events that the entry stands for. Raises what ``calls`` raises."""
        if not EntryFilter.passes(self, entry):
            return []
        events = calls.events_of(entry)
        return [ShownEvent.of(event) for event in events if self.types is None or event.dotted in self.types]

    def takes(self, seen: ShownEvent) -> bool:
        """Whether an event that no entry stands for is wanted, whenever it was."""
        return (
            (self.types is None or seen.type in self.types)
            and self.namespace in (None, seen.payload.get("namespace"))
            and (self.session is None or _is(self.session, seen.payload.get("instance")))
        )


def _is(pattern: str, name: Any) -> bool:
    """Whether a session has that name; ``*`` stands for anything."""
    return isinstance(name, str) and fits(pattern, name)


# --- what was -----------------------------------------------------------------------------------------


def past(book: Journal, log: Path, wanted: EventSelection, count: int) -> Iterable[ShownEvent]:
    """Return the newest ``count`` wanted events up to ``wanted.until`` in the order of time.

    ``count`` 0 means all, one at a time: those of a log in its order, which is that of time but for a few seconds.
    ``log`` is the folder of the daily logs, which need not exist.
    """
    journalled = wanted.types is None or not JOURNALLED.isdisjoint(wanted.types)
    logged = wanted.types is None or not wanted.types <= JOURNALLED
    calls = OpeningCalls(book.entry)
    if not count:
        every = (seen for entry in book.read(wanted) for seen in wanted.of(entry, calls)) if journalled else iter(())
        return heapq.merge(every, _logged(log, wanted, newest=False) if logged else (), key=_second)
    found = [seen for entry in book.last(count, wanted) for seen in wanted.of(entry, calls)] if journalled else []
    if logged:
        newest = _logged(log, wanted, newest=True)
        found += [seen for seen, _ in zip(newest, range(count), strict=False)][::-1]
    return sorted(found, key=_second)[-count:]


def _second(seen: ShownEvent) -> int:
    """Its whole second, which is all that the log knows: within one the journal's events keep their place before."""
    return int(seen.at)


def _logged(folder: Path, wanted: EventSelection, *, newest: bool) -> Iterator[ShownEvent]:
    """Yield the wanted events of the daily logs that the journal does not have, oldest or newest first."""
    since, until = wanted.since / SECOND, wanted.until / SECOND if wanted.until is not None else float("inf")
    days = sorted((match[1], path) for path in folder.glob("*.log.md") if (match := _DAY.fullmatch(path.name)))
    first = datetime.fromtimestamp(since).astimezone().date().isoformat() if since else ""
    for day, path in reversed(days) if newest else days:
        if day < first:
            continue
        with suppress(FileNotFoundError), path.open("rb") as lines:  # it was too old, and has just been removed
            for line in _backwards(lines.fileno()) if newest else lines:
                seen = _read(line, day)
                if seen is not None and since <= seen.at <= until and wanted.takes(seen):
                    yield seen


def _read(line: bytes, day: str) -> ShownEvent | None:
    """Parse a line ``HH:MM:SS | type | {json}`` of a day's log; ``at`` is its time. Return None if it is malformed."""
    clock, _, rest = line.partition(b" | ")
    name, _, payload = rest.partition(b" | ")
    type = name.decode("utf-8", "replace")
    if not payload or type in JOURNALLED:
        return None
    try:
        found = msgspec.json.decode(payload)
        moment = datetime.fromisoformat(f"{day}T{clock.decode('ascii')}").timestamp()
    except (ValueError, RecursionError):
        return None
    return ShownEvent(type, {**found, "at": found.get("at", moment)}) if isinstance(found, dict) else None


def _backwards(file: int) -> Iterator[bytes]:
    """Yield the lines of a file from the last to the first."""
    place = os.lseek(file, 0, os.SEEK_END)
    rest = b""
    while place > 0:
        start = max(0, place - _BLOCK)
        first, *lines = (os.pread(file, place - start, start) + rest).split(b"\n")
        yield from reversed(lines)
        rest = first if len(first) <= _LONGEST else b""
        place = start
    yield rest


def past_elsewhere(url: str, token: str | None, wanted: EventSelection, count: int) -> tuple[list[ShownEvent], int]:
    """Return the newest ``count`` events that the journal of the server at ``url`` tells of, and its newest ``seq``.

    They are looked for in its newest ``PAGE`` entries; ``count`` 0 means all of these. A report of a call that began
    before them has no ``callId``. Raises ``GateUnavailable`` if
    it cannot be asked, ``ConfigError`` if it refuses.
    """
    try:
        with CallosumClient(url, token=token, deadline=_PATIENCE) as client:
            entries = client.journal(newest=True, limit=PAGE, namespace=wanted.namespace).entries
    except ConfigError as error:
        raise refusal(error, url) from None
    calls = OpeningCalls({entry.seq: entry for entry in entries}.get)
    found = [seen for entry in entries for seen in wanted.of(entry, calls)]
    return found[-count:] if count else found, entries[-1].seq if entries else 0


def refusal(fault: ConfigError, url: str) -> ConfigError:
    """Return what a server answered as an error that names it, and say where its token is to be."""
    if fault.at == "Authorization":
        return ConfigError(f"{fault.message} (--token-file, or CALLOSUM_TOKEN)", at=url)
    return ConfigError(str(fault), at=url)


# --- what comes ---------------------------------------------------------------------------------------


Step = tuple[str, ShownEvent | None]
"""The id of an event in the stream, from which to go on, and the event if it is to be shown."""
Tell = Callable[[str], None]
"""Is given what a person is to know of the connection, a sentence at a time."""


def coming_from(
    url: str, wanted: EventSelection, newest: int, now: int, token: str | None, tell: Tell
) -> Iterator[ShownEvent]:
    """Yield what comes from the server at ``url`` behind its entry ``newest``, without end.

    A server begins with what hosts reported since that entry, which may be hours ago. What it had before the moment
    ``now`` is what was, and is left out. Raises ``GateUnavailable`` if it cannot be asked at first, ``ConfigError`` if
    it refuses.
    """
    began = time.monotonic()
    for id, seen in _streamed(url, wanted, id_of(end_of(newest)), token, tell):
        if seen is None:
            continue
        # Its clock may be another than ours: what comes later than at first is news, whatever it says.
        at_first = time.monotonic() - began < _AT_FIRST
        if seen.type == DROPPED:
            if at_first:  # of what was before
                continue
        elif _is_reported(id) and seen.at * SECOND < (now if at_first else wanted.since):
            continue
        yield seen


def _is_reported(id: str) -> bool:
    """Whether the server had an event from a host, and not from its journal."""
    try:
        return position_of(id)[1] > PUBLISHED
    except BadRequest:
        return False


def coming(
    book: Journal, state: Path, wanted: EventSelection, newest: int, now: int, token: str | None, tell: Tell
) -> Iterator[ShownEvent]:
    """Yield what comes in a state folder behind the entry ``newest`` and the moment ``now``, without end.

    It comes from a server of the folder while there is one that can be asked, else from the journal.
    """
    last_id = id_of((newest, PUBLISHED + now))
    refused: set[str] = set()
    told, first = False, True

    def server() -> str | None:
        return next((one.address for one in running(state) if one.address not in refused), None)

    while True:
        address = server()
        if address is None:
            if not told:
                told = True
                tell(_NO_SERVER)
            steps = _journalled(book, wanted, last_id, lambda: server() is not None)
        else:
            if not first:
                tell(f"{address} is there: going on after the last event")
            steps = _streamed(address, wanted, last_id, token, tell, partial(_is_there, state, address))
        first = False
        try:
            for last_id, seen in steps:  # noqa: B007 - where the next source begins
                if seen is not None:
                    yield seen
        except (GateUnavailable, ConfigError) as error:
            if address is None:
                raise
            refused.add(address)
            tell(str(error))


def _is_there(state: Path, address: str) -> bool:
    return any(one.address == address for one in running(state))


def _journalled(book: Journal, wanted: EventSelection, last_id: str, stop: Callable[[], bool]) -> Iterator[Step]:
    """Follows the journal until ``stop()``."""
    position = position_of(last_id)
    seq, place = position
    calls = OpeningCalls(book.entry)
    for entry in book.follow(after=seq - (place < PUBLISHED), stop=stop):
        for n, event in enumerate(calls.events_of(entry)):
            if (entry.seq, n) > position:
                seen = ShownEvent.of(event)
                yield id_of((entry.seq, n)), seen if wanted.takes(seen) else None


def _streamed(
    url: str,
    wanted: EventSelection,
    last_id: str,
    token: str | None,
    tell: Tell,
    there: Callable[[], bool] | None = None,
) -> Iterator[Step]:
    """Follows a server's stream; one of this machine as long as it is ``there``."""
    source = _Source(url, wanted, token, tell, there)
    with closing(source):
        try:
            events = Events(source.connect, last_id=last_id, wait=source.wait, clock=time.monotonic)
        except TransportError as error:
            raise GateUnavailable(f"the gate at {url} cannot be asked: {error}") from error
        with closing(events):
            for id, type, text in events:
                seen = _seen(type, text)
                yield id, seen if seen is not None and (type == DROPPED or wanted.takes(seen)) else None


class _Source:
    """Opens a server's stream again and again, and tells when it was lost and found."""

    def __init__(
        self, url: str, wanted: EventSelection, token: str | None, tell: Tell, there: Callable[[], bool] | None
    ) -> None:
        try:
            # The address of one of this machine was read in the user's own folder; its certificate has another name.
            self._transport = Transport(url, token=token, verify=there is None)
        except ValueError as error:
            raise ConfigError(str(error), at=url) from None
        types = ",".join(sorted(wanted.types)) if wanted.types is not None else "*"
        namespace = f"&namespace={quoted(wanted.namespace)}" if wanted.namespace is not None else ""
        self._target = f"/events?types={quoted(types)}{namespace}"
        self._url = url
        self._tell = tell
        self._there = there
        self._lost = False

    def connect(self, last_id: str) -> ResponseStream:
        """Open the stream behind that event. Raises ``TransportError``, ``ConfigError``."""
        deadline = time.monotonic() + _PATIENCE
        headers = ("Accept: text/event-stream", f"Last-Event-ID: {last_id}")
        stream = self._transport.open(self._target, headers, deadline=deadline)
        if stream.status != 200:
            fault = fault_of(stream.read_all(deadline))
            stream.close()
            if isinstance(fault, ConfigError):
                raise refusal(fault, self._url)
            raise fault if isinstance(fault, TransportError) else BadResponse(str(fault))
        if self._lost:
            self._lost = False
            self._tell(f"{self._url} is back: going on after the last event")
        return stream

    def wait(self, seconds: float) -> bool:
        """Wait before the next try; whether there is to be one."""
        if not self._lost:
            self._lost = True
            self._tell(f"the connection to {self._url} was lost; looking for it again")
        time.sleep(min(seconds, _LOOK_EVERY) if self._there is not None else seconds)
        return self._there is None or self._there()

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()


def _seen(type: str, text: str) -> ShownEvent | None:
    """Parse an event of the stream. Return None if it is malformed."""
    try:
        payload = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return ShownEvent(type, payload) if isinstance(payload, dict) else None
