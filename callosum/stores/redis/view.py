"""Build a step's view from the answer of ``read_view.lua``.

The script returns everything that can matter to a scope, and a little more; the view is selected from it here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from callosum.model import Action, ActionGroup, Bodies, Find, Lately, Mode, Scope, View
from callosum.stores.base import Probe
from callosum.stores.crowd import BOUND, AskingCall, Crowds, hold_by_sort
from callosum.stores.keys import above, span
from callosum.stores.records import Record, probed
from callosum.stores.redis.records import KeyKnowledge, answer_in, known_of, record_of
from callosum.stores.view import Fetched, meant, twins, views, waiting_among


class ViewData(Struct):
    """The data of one scope's view. ``names``: keys for which this session's marks were read.

    ``crowds``: ids of all open actions on very crowded keys. ``more``: summaries of those that are not shown.
    """

    parents: list[str]
    before: list[str]
    knowledge: dict[tuple[str, str], KeyKnowledge]
    records: dict[int, Record]
    earlier: int | None
    answer: bytes
    unreported: list[int]
    names: set[str]
    crowds: dict[str, list[int]] = {}
    more: dict[str, tuple[ActionGroup, ...]] = {}


def scope_fields(scope: Scope) -> list[Any]:
    """Return a scope in the form that ``read_view.lua`` reads."""
    names = [key.name for key in scope.keys]
    related = dict.fromkeys(name for key in names for name in above(key))
    related.update((name[: name.index("|")], None) for name in names if "|" in name)
    find = scope.find
    return [
        scope.session,
        names,
        list(related),
        [(*span(key.name), key.mode is Mode.WRITE) for key in scope.keys if key.name[-1:] == "/"],
        [print_.hex() for print_ in scope.prints],
        scope.call.hex() if scope.call is not None else "",
        f"{find.id:016d}" if find is not None and find.id is not None else "",
        find is not None and find.id is None,
        scope.waits,
        scope.live,
        scope.parent,
        scope.continues,
        BOUND if scope.asks is not None else 0,
    ]


def parse_view_data(answer: Sequence[Any], namespace: str) -> ViewData:
    """Parse the answer of ``read_view.lua`` for one scope."""
    parents, before, docs, actions, earlier, line, unreported, names, crowds = answer
    return ViewData(
        [name.decode() for name in parents],
        [name.decode() for name in before],
        {(docs[i].decode(), docs[i + 1].decode()): known_of(docs[i + 2]) for i in range(0, len(docs), 3)},
        {id: record_of(id, namespace, actions[i + 1]) for i in range(0, len(actions), 2) if (id := int(actions[i]))},
        int(earlier) if earlier else None,
        answer_in(line) if line else b"",
        [int(id) for id in unreported],
        {name.decode() for name in names},
        {crowds[i].decode(): [int(id) for id in crowds[i + 1].split(b",")] for i in range(0, len(crowds), 2)},
    )


class RedisView:
    """Select one scope's view from consistent data."""

    def __init__(self, data: ViewData, scope: Scope, now: int, probe: Probe, crowds: Crowds | None = None) -> None:
        self.data = data
        self.crowds = crowds
        self.scope = scope
        self.now = now
        self.probe = probe
        self.all = {id: probed(record.action, probe) for id, record in data.records.items()}
        self.actions = [self.all[id] for id in sorted(self.all, reverse=True) if data.records[id].opened]
        """Newest first."""

    def view(self, observe: int, bodies: Bodies | None = None, lately: Lately | None = None) -> View:
        """Return the view. ``observe``: moment until which the whole gate only observes."""
        scope, data = self.scope, self.data
        found_action = self._found(scope.find) if scope.find is not None else None
        repeated = found_action.supersedes if found_action is not None else ()
        waiting = self.waiting() if scope.waits else ()
        return View(
            self.now,
            views(self._by_sort(waiting), scope) if scope.keys else (),
            self._earlier(),
            found_action,
            twins(((action, data.records[action.id].prints) for action in self.actions), scope) if scope.prints else (),
            tuple(data.parents),
            waiting,
            tuple([action for action in self.actions if action.id in repeated]) if repeated else (),
            observe,
            bodies,
            lately,
        )

    def _by_sort(self, waiting: Sequence[str]) -> Fetched:
        """Return the actions on keys, with open actions grouped by kind if the scope says for whom."""
        fetched, scope = self.fetched(), self.scope
        if scope.asks is not None and scope.live and self.crowds is not None:
            asker = AskingCall(scope.session, scope.asks, self.now, self.data.parents, waiting, self.probe)
            hold_by_sort(fetched, scope, asker, self.crowds, f"{scope.namespace}\0")
        return fetched

    def fetched(self) -> Fetched:
        """Return the actions and marks on keys."""
        data, own = self.data, self.scope.session
        sessions = (own, *data.before)
        marks = {mark: knowledge.mark for mark, knowledge in data.knowledge.items() if mark[1] in sessions}
        fetched = Fetched({}, marks, data.before, dict(data.more))
        for action in self.actions:
            if action.approved > 0 and action.session == own:  # an approved call brings the params it may run with
                action = replace(action, answer=data.records[action.id].params)  # noqa: PLW2901 - the same action
            for key in action.keys:
                fetched.add(replace(action, key=key.name, mode=key.mode) if key.name != action.key else action)
        return fetched

    def _earlier(self) -> Action | None:
        action = self.all.get(self.data.earlier) if self.data.earlier is not None else None
        return replace(action, answer=self.data.answer) if action is not None else None

    def waiting(self) -> tuple[str, ...]:
        """Return the sessions that wait for something this one holds."""
        return waiting_among(self.actions, self.now, self.scope.session)

    def _found(self, find: Find) -> Action | None:
        if find.id is not None:
            return self.all.get(find.id)
        return meant((self.all[id] for id in self.data.unreported if id in self.all), find)
