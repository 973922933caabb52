"""The call that opened an action: a report's event carries its names.

A report's journal entry names its action. The entry that opened the action holds the host's id of the call, its task
and its attempt. A reader of the journal has usually seen that entry; otherwise it is looked up.
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
_LATER: Final = frozenset((Event.COMPLETE, Event.RELEASE, Event.LAPSE, Event.RESOLVE, Event.APPROVE, Event.DENY))

Find = Callable[[int], Entry | None]
"""Return the journal entry with this ``seq``, or None if it no longer exists."""


class OpeningCalls:
    """Derive events from entries as ``events_of`` does, each with the names of its call.

    ``find`` looks up opening entries that were not passed in before. Without it, and while the store is unreachable,
    events of such an action carry no names. May be used from any thread.
    """

    def __init__(self, find: Find | None = None) -> None:
        self._find = find
        self._calls: OrderedDict[int, CallNames] = OrderedDict()
        self._guard = threading.Lock()
        self._newest: tuple[Entry | None, Events] = (None, ())

    def events_of(self, entry: Entry) -> Events:
        """Return the events of a journal entry, in order.

        Several regions ask for the events of one entry, so the last answer is kept.
        """
        last, events = self._newest
        if last is entry:
            return events
        names: CallNames | None = CallNames()
        if entry.event in OPENING:
            names = call_names_of(entry)
            self._remember(entry.action or entry.seq, names)
        elif entry.event in _LATER and entry.action and not entry.body.get("lock"):
            names = self._names_of(entry.action)
        events = events_of(entry, names or CallNames())
        if names is not None:
            self._newest = entry, events
        return events

    def _names_of(self, action: int) -> CallNames | None:
        """Return the names of the call that opened an action, None if they cannot be looked up now."""
        with self._guard:
            names = self._calls.get(action)
        if names is None:
            if self._find is None:
                return CallNames()
            try:
                opening = self._find(action)
            except StoreError as error:
                logger.warning(
                    "corpus: the call of action %d cannot be looked up, so its events lack its names: %s", action, error
                )
                return None
            names = call_names_of(opening) if opening is not None and opening.event in OPENING else CallNames()
            self._remember(action, names)
        return names

    def _remember(self, action: int, names: CallNames) -> None:
        with self._guard:
            self._calls[action] = names
            while len(self._calls) > REMEMBERED:
                self._calls.popitem(last=False)
