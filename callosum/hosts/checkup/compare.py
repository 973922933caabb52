"""The calls in the transcripts of hosts, compared with the decisions in the journal."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from callosum.hosts.inspection import TranscriptCall
from callosum.model import SECOND, Entry, Event

if TYPE_CHECKING:
    from callosum.programs.program import Known

BEFORE: Final = 600.0
"""A decision may be so much older than the time in the transcript, in seconds."""
_UNSURE: Final = 60.0
"""A call of which nobody says yet whether it ran is let be for so many seconds."""
_MOST: Final = 500_000


class JournalledCalls:
    """What the journal, and what waits for it, knows of calls."""

    def __init__(self, entries: Iterable[Entry], state: Path) -> None:
        self.ids: set[str] = set()
        self.pairs: set[tuple[str, str]] = set()
        """Session, as the host calls it, and id."""
        self.counts: Counter[tuple[str, str]] = Counter()
        """By session and tool."""
        for entry in islice(entries, _MOST):
            if entry.event in (Event.INTERCEPT, Event.LATE):
                session = entry.session.partition("/")[2].partition(":")[0]  # behind the colon stands a sub-agent
                self._add(session, entry.tool, entry.body.get("callId"))
        self._add_waiting(state)

    def _add(self, session: str, tool: str, id: object) -> None:
        self.counts[session, tool] += 1
        if isinstance(id, str):
            self.ids.add(id)
            self.pairs.add((session, id))

    def _add_waiting(self, state: Path) -> None:
        """Calls that went on while no gate answered: noted, and not journalled yet."""
        for path in state.glob("late*.jsonl"):
            try:
                lines = path.read_bytes().splitlines()
            except OSError:
                continue
            for line in lines:
                try:
                    record = json.loads(line)
                    if record.get("kind", "call") != "call":
                        continue  # a report or a cancellation says nothing of a decision
                    call = record["call"]
                    self._add(str(call["session"]).partition(":")[0], str(call["tool"]), call["callId"])
                except (ValueError, KeyError, TypeError, AttributeError):
                    continue


def undecided(
    calls: Sequence[TranscriptCall], decided: JournalledCalls, now: float, known: Known
) -> list[TranscriptCall]:
    """The calls that ran, or may have, without a decision; oldest first."""
    left = [call for call in calls if call.ran or (call.ran is None and now - call.at > _UNSURE)]
    if known == "id":
        return sorted((call for call in left if call.id not in decided.ids), key=lambda call: call.at)
    if known == "session and id":
        # A session that goes on from another one has its calls once more, with their moments.
        done = {(call.id, call.at) for call in left if (call.session, call.id) in decided.pairs}
        return sorted((call for call in left if (call.id, call.at) not in done), key=lambda call: call.at)
    counts = decided.counts.copy()
    missing = []
    for call in sorted(left, key=lambda call: call.at, reverse=True):
        # An earlier call is more likely to be one from before the gate was there.
        counts[call.session, call.tool] -= 1
        if counts[call.session, call.tool] < 0:
            missing.append(call)
    return sorted(missing, key=lambda call: call.at)


def earliest(since: float) -> int:
    """From where on the journal is to be read."""
    return int((since - BEFORE) * SECOND)
