"""Which call an action was: what a report is told with beside what its own entry of the journal says.

The entry of a report names its action, and the entry that opened the action has the host's id of the call, its task
and its attempt. Whoever follows the journal has mostly seen that entry; of others it is looked up.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from callosum.corpus.entry_events import OPENING, CallNames, Events, call_names_of, events_of
from callosum.errors import StoreError
from callosum.model import Entry, Event

logger = logging.getLogger("callosum")

REMEMBERED: Final = 10_000
"""Number of actions whose calls are remembered."""
_LATER: Final = frozenset(
    (Event.COMPLETE, Event.RELEASE, Event.LAPSE, Event.RESOLVE, Event.APPROVE, Event.DENY),
)

Find = Callable[[int], Entry | None]
"""Return the entry of the journal with this ``seq``, None if there is none any more."""


class OpeningCalls:
    """Derive events from entries as ``events_of`` does, each with the names of its call.

    ``find`` looks up the entries that opened actions and that were not handed over before. Without it, and while the
    store is away, what is told of such an action carries no names. May be used from any thread.
    """

    def __init__(self, find: Find | None = None) -> None:
        self._find = find
        self._calls: OrderedDict[int, CallNames] = OrderedDict()
        self._guard = threading.Lock()

    def events_of(self, entry: Entry) -> Events:
        """Return the events of a journal entry, in order."""
        if entry.event in OPENING:
            made = call_names_of(entry)
            self._remember(entry.action or entry.seq, made)
            return events_of(entry, made)
        if entry.event in _LATER and entry.action and not entry.body.get("lock"):
            return events_of(entry, self._made(entry.action))
        return events_of(entry)

    def _made(self, action: int) -> CallNames:
        with self._guard:
            made = self._calls.get(action)
        if made is None:
            if self._find is None:
                return CallNames()
            try:
                opening = self._find(action)
            except StoreError as error:
                logger.warning("corpus: what ended as %d is told without its call: %s", action, error)
                return CallNames()
            made = call_names_of(opening) if opening is not None and opening.event in OPENING else CallNames()
            self._remember(action, made)
        return made

    def _remember(self, action: int, made: CallNames) -> None:
        with self._guard:
            self._calls[action] = made
            while len(self._calls) > REMEMBERED:
                self._calls.popitem(last=False)
