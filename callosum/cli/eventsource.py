"""Read the events that ``callosum events`` shows: past ones, and new ones with ``--follow``.

Past events: ``tool.*``, ``safety.*`` and ``lease.*`` are made from the journal's entries, all others are read from the
daily log. New events come from a server's stream if one runs, otherwise from the journal. Both number their events
alike, so either source can continue after the last event of the other when a server starts or stops.
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
from callosum.client.messages import fault_of, query_of
from callosum.client.sse import Events
from callosum.client.transport import ResponseStream, Transport
from callosum.corpus import entry_events
from callosum.corpus.entry_events import OpeningCalls, events_of
from callosum.corpus.events import CorpusEvent, encode
from callosum.errors import ConfigError, GateUnavailable
from callosum.journal import EntryFilter, fits
from callosum.model import SECOND, Entry
from callosum.server.listeners import running
from callosum.server.replay_buffer import PUBLISHED, end_of, id_of, position_of
from callosum.wire import BadRequest

if TYPE_CHECKING:
    from callosum.journal import Journal

JOURNALLED: Final = frozenset(kind.dotted for kind in entry_events.JOURNALLED)
"""Names of the events that journal entries stand for."""
DROPPED: Final = "stream.dropped"
"""Sent by a server to a reader that was too slow or disconnected: it missed ``count`` events (``atLeast``)."""
PAGE: Final = 1000
"""Number of journal entries of another server that are searched for past events."""
_NO_SERVER: Final = (
    "no server to ask: what comes is read from the journal, which has tool.*, safety.* and lease.*; "
    "what hosts report (llm.*, input.*, ...) and all the rest needs one (callosum serve)"
)
_PATIENCE: Final = 3.0
"""Seconds within which a server must begin its answer."""
_AT_FIRST: Final = 2.0
"""Seconds within which a server sends the events from before."""
_LOOK_EVERY: Final = 0.5
"""Seconds between two searches for a server of this machine that is gone."""
_BLOCK: Final = 65_536
_LONGEST: Final = 16_000_000
"""Maximum length in bytes of a log line that is read."""
_DAY: Final = re.compile(r"(\d{4}-\d\d-\d\d)\.log\.md")


class ShownEvent(NamedTuple):
    """An event as it is shown: its dotted name and its payload in the wire's form."""

    type: str
    payload: dict[str, Any]

    @property
    def at(self) -> float:
        """Return the event's time in Unix seconds; 0 if it has none."""
        at = self.payload.get("at")
        return at if isinstance(at, int | float) else 0.0

    @classmethod
    def of(cls, event: CorpusEvent) -> ShownEvent:
        """Return an event of this process."""
        return cls(event.dotted, msgspec.json.decode(encode(event)))


class EventSelection(EntryFilter, frozen=True, kw_only=True):
    """Select events, and with them entries; ``types`` None means all."""

    types: frozenset[str] | None = None

    def passes(self, entry: Entry) -> bool:
        """Return True if the entry stands for a selected event."""
        return EntryFilter.passes(self, entry) and any(
            self.types is None or event.dotted in self.types for event in events_of(entry)
        )

    def of(self, entry: Entry, calls: OpeningCalls) -> list[ShownEvent]:
        """Return the selected events that the entry stands for. Raises what ``calls`` raises."""
        if not EntryFilter.passes(self, entry):
            return []
        events = calls.events_of(entry)
        return [ShownEvent.of(event) for event in events if self.types is None or event.dotted in self.types]

    def takes(self, seen: ShownEvent) -> bool:
        """Return True if an event without an entry is selected, at any time."""
        name = seen.payload.get("instance")
        return (
            (self.types is None or seen.type in self.types)
            and self.namespace in (None, seen.payload.get("namespace"))
            and (self.session is None or (isinstance(name, str) and fits(self.session, name)))
        )


# --- Past events --------------------------------------------------------------------------------------


def past(book: Journal, log: Path, wanted: EventSelection, count: int) -> Iterable[ShownEvent]:
    """Return the newest ``count`` selected events up to ``wanted.until``, in order of time.

    ``count`` 0 yields all, one at a time; those of a log come in its order, which is that of time within a few seconds.
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
    """Return the event's whole second, which is all that the log has; within it the journal's events come first."""
    return int(seen.at)


def _logged(folder: Path, wanted: EventSelection, *, newest: bool) -> Iterator[ShownEvent]:
    """Yield the selected events of the daily logs that the journal does not have, oldest or newest first."""
    since, until = wanted.since / SECOND, wanted.until / SECOND if wanted.until is not None else float("inf")
    days = sorted((match[1], path) for path in folder.glob("*.log.md") if (match := _DAY.fullmatch(path.name)))
    first = datetime.fromtimestamp(since).astimezone().date().isoformat() if since else ""
    for day, path in reversed(days) if newest else days:
        if day < first:
            continue
        with suppress(FileNotFoundError), path.open("rb") as lines:  # it was too old and has just been removed
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
    """Return the newest ``count`` events from the journal of the server at ``url``, and its newest ``seq``.

    Its newest ``PAGE`` entries are searched; ``count`` 0 means all of these. A report of a call that began before them
    has no ``callId``. Raises ``GateUnavailable`` if the server cannot be asked, ``ConfigError`` if it refuses.
    """
    try:
        with CallosumClient(url, token=token, deadline=_PATIENCE) as client:
            entries = client.journal(newest=True, limit=PAGE, namespace=wanted.namespace).entries
    except ConfigError as error:
        raise _refusal(error, url) from None
    calls = OpeningCalls({entry.seq: entry for entry in entries}.get)
    found = [seen for entry in entries for seen in wanted.of(entry, calls)]
    return found[-count:] if count else found, entries[-1].seq if entries else 0


def _refusal(fault: ConfigError, url: str) -> ConfigError:
    """Return a server's refusal as an error that names the server and says where its token belongs."""
    if fault.at == "Authorization":
        return ConfigError(f"{fault.message} (--token-file, or CALLOSUM_TOKEN)", at=url)
    return ConfigError(str(fault), at=url)


# --- New events ---------------------------------------------------------------------------------------


Step = tuple[str, ShownEvent | None]
"""The id of an event in the stream, from which to continue, and the event if it is to be shown."""
Tell = Callable[[str], None]
"""Called with what a person should know about the connection, one sentence at a time."""


def coming_from(
    url: str, wanted: EventSelection, newest: int, now: int, token: str | None, tell: Tell
) -> Iterator[ShownEvent]:
    """Yield new events of the server at ``url`` after its entry ``newest``, without end.

    A server begins with what hosts reported since that entry, which may be hours ago. Events from before ``now`` are
    left out. Raises ``GateUnavailable`` if the server cannot be asked at first, ``ConfigError`` if it refuses.
    """
    began = time.monotonic()
    for id, seen in _streamed(url, wanted, id_of(end_of(newest)), token, tell):
        if seen is None:
            continue
        # The server's clock may differ: what arrives after the beginning is new, whatever its time says.
        at_first = time.monotonic() - began < _AT_FIRST
        if seen.type == DROPPED:
            if at_first:  # it is from before
                continue
        elif _is_reported(id) and seen.at * SECOND < (now if at_first else wanted.since):
            continue
        yield seen


def _is_reported(id: str) -> bool:
    """Return True if the server got the event from a host, and not from its journal."""
    try:
        return position_of(id)[1] > PUBLISHED
    except BadRequest:
        return False


def coming(
    book: Journal, state: Path, wanted: EventSelection, newest: int, now: int, token: str | None, tell: Tell
) -> Iterator[ShownEvent]:
    """Yield new events of a state folder after the entry ``newest`` and the time ``now``, without end.

    They come from a server of the folder while one can be asked, otherwise from the journal.
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
            for last_id, seen in steps:  # noqa: B007 - the next source begins there
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
    """Follow the journal until ``stop()``."""
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
    """Follow a server's stream, and report when it was lost and found; one of this machine as long as it is there."""
    lost = False

    def connect(last_id: str) -> ResponseStream:
        nonlocal lost
        deadline = time.monotonic() + _PATIENCE
        stream = transport.open(target, ("Accept: text/event-stream", f"Last-Event-ID: {last_id}"), deadline=deadline)
        if stream.status != 200:
            fault = fault_of(stream.read_all(deadline))
            stream.close()
            if isinstance(fault, ConfigError):
                raise _refusal(fault, url)
            raise fault if isinstance(fault, TransportError) else BadResponse(str(fault))
        if lost:
            lost = False
            tell(f"{url} is back: going on after the last event")
        return stream

    def wait(seconds: float) -> bool:
        nonlocal lost
        if not lost:
            lost = True
            tell(f"the connection to {url} was lost; looking for it again")
        time.sleep(min(seconds, _LOOK_EVERY) if there is not None else seconds)
        return there is None or there()

    try:
        # The address of a server of this machine was read in the user's own folder; its certificate has another name.
        transport = Transport(url, token=token, verify=there is None)
    except ValueError as error:
        raise ConfigError(str(error), at=url) from None
    types = ",".join(sorted(wanted.types)) if wanted.types is not None else "*"
    target = f"/events{query_of({'types': types, 'namespace': wanted.namespace})}"
    with closing(transport):
        try:
            events = Events(connect, last_id=last_id, wait=wait, clock=time.monotonic)
        except TransportError as error:
            raise GateUnavailable(f"the gate at {url} cannot be asked: {error}") from error
        with closing(events):
            for id, type, text in events:
                try:
                    payload = msgspec.json.decode(text)
                except (msgspec.DecodeError, RecursionError):
                    payload = None
                seen = ShownEvent(type, payload if isinstance(payload, dict) else {})
                shown = isinstance(payload, dict) and (type == DROPPED or wanted.takes(seen))
                yield id, seen if shown else None
