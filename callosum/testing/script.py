"""Short methods for what tests do with a store: open and end actions, set marks, return views."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from callosum.errors import CallosumError
from callosum.model import (
    DEFAULT_NAMESPACE,
    MINUTE,
    NO_MARK,
    Action,
    Applied,
    Change,
    Content,
    Entry,
    Event,
    Find,
    Host,
    Key,
    KeyView,
    Mark,
    Mode,
    Opening,
    Outcome,
    Scope,
    Settle,
    State,
    Verdict,
    View,
)
from callosum.stores.base import Store

LEASE = 5 * MINUTE
"""Microseconds until the lease of an action that a script opens runs out."""


def key_of(key: str | Key) -> Key:
    """Return a key; a bare name gets the default mode, write."""
    return Key(key) if isinstance(key, str) else key


class StoreScript:
    """A driver for a store. Its steps are small and assume nothing about any policy."""

    def __init__(self, store: Store, namespace: str = DEFAULT_NAMESPACE) -> None:
        self.store = store
        self.namespace = namespace

    def run(self, scope: Scope, step: Callable[[View], Change]) -> Applied:
        """Run one step. Raises what the step or the store raised."""
        (applied,) = self.store.transact([(scope, step)])
        if isinstance(applied, Exception):
            raise applied
        return applied

    def scope(self, session: str, keys: Iterable[str | Key] = (), **more: Any) -> Scope:
        """Return a scope in this script's namespace that includes live actions."""
        return Scope(self.namespace, session, tuple(key_of(key) for key in keys), **{"live": True, **more})

    def view(self, session: str, *keys: str | Key, **more: Any) -> View:
        """Return the view that a step of the session gets, without changing anything."""
        views: list[View] = []

        def step(view: View) -> Change:
            views.append(view)
            return Change()

        self.run(self.scope(session, keys, **more), step)
        return views[-1]

    def key_view(self, session: str, key: str | Key, **more: Any) -> KeyView:
        """Return the view of one key that a step of the session gets."""
        return self.view(session, key, **more).keys[0]

    def entry(self, session: str, keys: Iterable[str | Key] = (), **more: Any) -> Entry:
        """Return an entry like the one that a decision writes."""
        facts = {"tool": "tool", "tier": 2, "verdict": Verdict.ALLOW, **more}
        return Entry(
            facts.pop("event", Event.INTERCEPT),
            session,
            self.namespace,
            keys=tuple(key_of(key) for key in keys),
            **facts,
        )

    def act(  # noqa: PLR0913 - an action has this many properties
        self,
        session: str,
        *keys: str | Key,
        tier: int = 2,
        state: State = State.DONE,
        call: bytes | None = None,
        prints: tuple[bytes, ...] = (),
        content: Content | None = None,
        lock: bool = False,
        host: Host | None = None,
        limit: int = 0,
        supersedes: tuple[int, ...] = (),
        params: bytes | None = None,
        body: Mapping[str, Any] | None = None,
        lease: int = LEASE,
        **scope: Any,
    ) -> int:
        """Open an action and return its id. A key in read mode sets the session's read mark, as the policy does.

        The default state, ``done``, is the one in which an action of a tier without a lease is opened.
        """
        wanted = tuple(key_of(key) for key in keys)

        def step(view: View) -> Change:
            entry = self.entry(
                session, wanted, tier=tier, event=Event.LOCK if lock else Event.INTERCEPT, body=body or {}
            )
            opening = Opening(
                state,
                view.now + lease,
                limit=limit,
                host=host,
                lock=lock,
                content=content or Content(),
                prints=prints,
                supersedes=supersedes,
                params=params,
            )
            read = [key_view for key_view in view.keys if key_view.key.mode is Mode.READ]
            moves = {key_view.key.name: replace(key_view.mark, read=view.now) for key_view in read}
            return Change((entry,), opening, moves=moves)

        return self.run(self.scope(session, wanted, call=call, **scope), step).ids[-1]

    def refuse(self, session: str, *keys: str | Key, tier: int = 4, content: Content | None = None) -> int:
        """Journal a call that was blocked; return the entry's id."""

        def step(_: View) -> Change:
            entry = self.entry(session, keys, tier=tier, verdict=Verdict.BLOCK)
            return Change((entry,), content=content or Content())

        return self.run(self.scope(session, keys), step).ids[-1]

    def read(self, session: str, key: str) -> int:
        """Open a read of tier 0, which moves the session's read mark, and return its id."""
        return self.act(session, Key(key, Mode.READ), tier=0)

    def end(self, session: str, id: int, state: State = State.DONE, **more: Any) -> int:
        """Report an action's outcome and return the entry's id. The state ``unknown`` means that its lease ran out."""

        def step(view: View) -> Change:
            action = view.found
            if action is None:
                raise CallosumError(f"there is no action {id}")
            entry = self.entry(
                session, action.keys, event=Event.COMPLETE, action=id, verdict=None, outcome=Outcome(state.value)
            )
            ended = 0 if state is State.UNKNOWN else view.now
            settle = Settle(action, state, ended=more.get("ended", ended), expires=more.get("expires"))
            return Change((entry,), settles=(settle,))

        return self.run(Scope(self.namespace, session, find=Find(id=id)), step).ids[-1]

    def settle(self, id: int, state: State, **more: Any) -> Applied:
        """Move an action to a state, with an entry written by a person."""

        def step(view: View) -> Change:
            if view.found is None:
                raise CallosumError(f"there is no action {id}")
            entry = self.entry("person", event=Event.RESOLVE, action=id, verdict=None)
            return Change((entry,), settles=(Settle(view.found, state, **more),))

        return self.run(Scope(self.namespace, "person", find=Find(id=id)), step)

    def move(self, session: str, key: str, mark: Mark) -> None:
        """Set a session's mark, with an entry."""

        def step(_: View) -> Change:
            return Change((self.entry(session, (key,)),), moves={key: mark})

        self.run(self.scope(session, (key,)), step)

    def find(self, session: str, **how: Any) -> Action | None:
        """Return the action that a report of the session finds."""
        return self.find_view(session, Find(**how)).found

    def find_view(self, session: str, find: Find) -> View:
        """Return the view of a step that finds an action."""
        return self.view(session, find=find, live=False)


def ids(actions: Iterable[Action]) -> list[int]:
    """Return the ids of actions, in their order."""
    return [action.id for action in actions]


def unmarked(mark: Mark) -> bool:
    """Return True if a mark is empty."""
    return mark == NO_MARK
