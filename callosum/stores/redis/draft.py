"""From the steps of a round to what they want done: the part of a transaction that happens in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace
from redis.exceptions import RedisError

from callosum.errors import StoreUnavailable
from callosum.model import MINUTE, Applied, Change, Scope, View
from callosum.stores.base import Probe, Request
from callosum.stores.crowd import Crowds
from callosum.stores.redis.bodies import BodyReader
from callosum.stores.redis.cache import CachedView, CacheKey
from callosum.stores.redis.change import ChangeWriter, Commands, missing
from callosum.stores.redis.names import QUEUE, NamespaceKeys, looked_at, of_action, of_call, of_kin, of_reports
from callosum.stores.redis.records import NOTHING, OwnIds, known_of, record_of
from callosum.stores.redis.spaces import Namespaces
from callosum.stores.redis.view import RedisView, ViewData

TOLERANCE: Final = 20_000
"""By how many microseconds a transaction's moment may be moved on while it is applied."""

Origin = tuple[str, str, str, str]
"""A session (with its namespace), and what it says of where it comes from."""


class Basis(Struct):
    """On what one request's step runs. ``last``: the moment up to which ``seen`` is known to be true.

    ``names``: what a look that is recalled depends on. ``place`` and ``look``: what of it is remembered; for the report
    of an action, the look that it was opened with.
    """

    seen: ViewData
    last: int
    recalled: bool = False
    names: frozenset[str] | None = None
    place: CacheKey | None = None
    look: CachedView | None = None


class Draft(Struct):
    """What the steps of a round want done. ``looks``: the names that must stand since a moment.

    ``taken``: how many of the requests are in it.
    """

    own: OwnIds
    answers: list[Applied | Exception]
    views: list[View | None]
    writes: list[ChangeWriter | None]
    depends: list[set[str]]
    commands: Commands
    looks: dict[int, set[str]]
    changed: set[str]
    span: int = 0
    taken: int = 0
    wakes: bool = False
    durable: bool = False
    observe: int | None = None


class Drafter:
    """Runs steps. ``noted``: when what a session says of itself was last written down by this process."""

    def __init__(self, spaces: Namespaces, probe: Probe, noted: Mapping[Origin, int], crowds: Crowds) -> None:
        self._link = spaces.link
        self._probe = probe
        self._noted = noted
        self._crowds = crowds

    def draft(
        self, space: NamespaceKeys, requests: Sequence[Request], bases: Sequence[Basis], own: OwnIds, observe: int
    ) -> Draft:
        """Runs the steps of the first of these requests, as many as do not depend on one another."""
        draft = Draft(own, [], [], [], [], [], {}, set())
        for (scope, step), basis in zip(requests, bases, strict=True):
            depends = _depends(scope, basis)
            if not draft.changed.isdisjoint(depends):
                break  # it must see what one before it changed
            draft.taken += 1
            at = own.base + draft.span
            view: View | None = None
            write: ChangeWriter | None = None
            answer: Applied | Exception
            try:
                look = RedisView(basis.seen, scope, at, self._probe, self._crowds)
                opened = BodyReader(self._link.client, space)
                view = look.view(observe, opened, opened.lately)
                change = step(view)
                noted = at - self._noted.get(origin_of(scope), 0) < MINUTE
                write = ChangeWriter(space, scope, basis.seen, own, at, noted=noted)
                self._fetch(space, basis.seen, *missing(basis.seen, scope, change))
                write.write(change)
                answer = Applied(change, tuple(range(at, at + len(change.entries))), at)
            except (StoreUnavailable, RedisError):
                raise
            except Exception as error:  # noqa: BLE001 - it fails alone, and is handed to the one who asked
                answer, view, write = error, None, None
            draft.answers.append(answer)
            draft.views.append(view)
            draft.writes.append(write)
            draft.depends.append(depends)
            if basis.recalled or (write is not None and write.commands):
                must = draft.looks.setdefault(basis.last, set())
                must |= depends
                if write is not None:
                    must |= write.depends
            if write is None or isinstance(answer, Exception):
                continue
            if answer.change.observe_until is not None:
                draft.observe = answer.change.observe_until
            if not write.commands:
                continue
            draft.commands += write.commands
            draft.changed |= write.changed
            draft.wakes |= write.wakes
            draft.durable |= scope.durable
            draft.span += max(len(answer.ids), 1)
        return draft

    def _fetch(self, space: NamespaceKeys, seen: ViewData, ids: set[int], places: set[tuple[str, str]]) -> None:
        """Brings what a change is about and the look did not bring."""
        if not (ids or places):
            return
        wanted = sorted(places)
        with self._link.client.pipeline(transaction=False) as pipe:
            for id in sorted(ids):
                pipe.hget(space.key("a"), f"{id:016d}")
            for name, session in wanted:
                pipe.hget(space.key("m", name), session)
            found = pipe.execute()
        for id, record in zip(sorted(ids), found, strict=False):
            if record is not None:
                seen.records[id] = record_of(id, space.namespace, record)
        for place, blob in zip(wanted, found[len(ids) :], strict=True):
            seen.known[place] = known_of(blob) if blob is not None else NOTHING

    def alike(self, requests: Sequence[Request], draft: Draft) -> bool:
        """Whether the steps would want the same a little later, so that their moment may be moved on."""
        for (_, step), answer, view in zip(requests, draft.answers, draft.views, strict=False):
            if view is None or not isinstance(answer, Applied):
                continue
            later = step(replace(view, now=view.now + TOLERANCE))
            if _shape(later) != _shape(answer.change):
                return False
        return True

    def moved(self, requests: Sequence[Request], draft: Draft, shift: int) -> list[Applied | Exception]:
        """The answers at the moment at which they were applied: each step tells its ids by its view's now."""
        moved: list[Applied | Exception] = []
        for (_, step), answer, view in zip(requests, draft.answers, draft.views, strict=False):
            if view is None or not isinstance(answer, Applied):
                moved.append(answer)
                continue
            change = step(replace(view, now=view.now + shift))
            ids = tuple([id + shift for id in answer.ids])
            moved.append(Applied(change, ids, answer.now + shift))
        return moved


# --- words ----------------------------------------------------------------------------------------


def _depends(scope: Scope, basis: Basis) -> set[str]:
    """The names under which a change would be seen that matters to a scope."""
    if basis.names is not None:  # a look that was made before
        names = set(basis.names)
    else:
        seen = basis.seen
        names = looked_at(scope.keys, (scope.session, *seen.before))
        names.update([of_kin(session) for session in (scope.session, *seen.parents, *seen.before)])
    if scope.call is not None:
        names.add(of_call(scope.call))
    find = scope.find
    if find is not None:
        names.add(of_action(find.id) if find.id is not None else of_reports(scope.session))
    if scope.waits:
        names.add(QUEUE)
    return names


def origin_of(scope: Scope) -> Origin:
    """What the session of a scope says."""
    return scope.namespace, scope.session, scope.parent, scope.continues


def _shape(change: Change) -> tuple[Any, ...]:
    """What a change does, without its moments and words."""
    opening = change.open
    return (
        [(entry.event, entry.verdict, entry.outcome, entry.keys) for entry in change.entries],
        opening and (opening.state, opening.supersedes, opening.lock),
        [(settle.action.id, settle.state) for settle in change.settles],
        [(move.key, move.mark.notified, move.mark.notified_kind) for move in change.moves],
        [(revision.action.id, revision.also) for revision in change.revisions],
    )
