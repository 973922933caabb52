"""Compare the calls in the transcripts of hosts with the decisions in the journal."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from callosum.hosts.inspection import TranscriptCall
from callosum.hosts.terminals import session_of
from callosum.model import SECOND, Entry, Event

if TYPE_CHECKING:
    from callosum.programs.program import Known

BEFORE: Final = 600.0
"""Seconds by which a decision may be older than the time in the transcript."""
_UNSURE: Final = 60.0
"""Seconds for which a call is ignored while nothing says whether it ran."""
_MOST: Final = 500_000


class JournalledCalls:
    """Collect the calls that the journal and the spool contain."""

    def __init__(self, entries: Iterable[Entry], state: Path) -> None:
        self.ids: set[str] = set()
        self.pairs: set[tuple[str, str]] = set()
        """The host's name for the session, and the call id."""
        self.counts: Counter[tuple[str, str]] = Counter()
        """Number of calls by session and tool."""
        for entry in islice(entries, _MOST):
            if entry.event in (Event.INTERCEPT, Event.LATE):
                self._add(entry.session.partition("/")[2], entry.tool, entry.body.get("callId"))
        self._add_waiting(state)

    def _add(self, session: str, tool: str, id: object) -> None:
        session = session_of(session)
        self.counts[session, tool] += 1
        if isinstance(id, str):
            self.ids.add(id)
            self.pairs.add((session, id))

    def _add_waiting(self, state: Path) -> None:
        """Add spooled calls, which ran while no gate answered and are not journalled yet."""
        for path in state.glob("late*.jsonl"):
            try:
                lines = path.read_bytes().splitlines()
            except OSError:
                continue
            for line in lines:
                try:
                    record = json.loads(line)
                    if record.get("kind", "call") != "call":
                        continue  # a report or a cancellation implies no decision
                    call = record["call"]
                    self._add(str(call["session"]), str(call["tool"]), call["callId"])
                except (ValueError, KeyError, TypeError, AttributeError):
                    continue


def undecided(
    calls: Sequence[TranscriptCall], decided: JournalledCalls, now: float, known: Known
) -> list[TranscriptCall]:
    """Return the calls that ran, or may have run, without a decision, oldest first."""
    relevant = [call for call in calls if call.ran or (call.ran is None and now - call.at > _UNSURE)]
    if known == "id":
        return sorted((call for call in relevant if call.id not in decided.ids), key=lambda call: call.at)
    if known == "session and id":
        # A session that continues another one repeats its calls with their original times.
        decided_calls = {(call.id, call.at) for call in relevant if (call.session, call.id) in decided.pairs}
        return sorted((call for call in relevant if (call.id, call.at) not in decided_calls), key=lambda call: call.at)
    counts = decided.counts.copy()
    missing = []
    for call in sorted(relevant, key=lambda call: call.at, reverse=True):
        # An earlier call is more likely to predate the gate.
        counts[call.session, call.tool] -= 1
        if counts[call.session, call.tool] < 0:
            missing.append(call)
    return sorted(missing, key=lambda call: call.at)


def earliest(since: float) -> int:
    """Return the time from which the journal must be read."""
    return int((since - BEFORE) * SECOND)
