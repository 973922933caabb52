"""Run the steps of a round and collect their commands: the part of a transaction that runs in this process."""

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
from callosum.stores.redis.names import QUEUE, NamespaceKeys, names_of_view, of_action, of_call, of_kin, of_reports
from callosum.stores.redis.records import NOTHING, OwnIds, known_of, record_of
from callosum.stores.redis.spaces import Namespaces
from callosum.stores.redis.view import RedisView, ViewData

TOLERANCE: Final = 20_000
"""Microseconds by which a transaction's moment may be moved to a later one while it is applied."""

Origin = tuple[str, str, str, str]
"""Namespace and name of a session, its parent and its predecessor."""


class Basis(Struct):
    """The data that one request's step runs on. ``last``: the moment up to which ``data`` is known to be true.

    ``cached``: True if ``data`` comes from the cache. ``names``: names that a cached view depends on. ``cache_key`` and
    ``cached_view``: its key in the cache, and the cached view; for a report, the view that the action was opened with.
    """

    data: ViewData
    last: int
    cached: bool = False
    names: frozenset[str] | None = None
    cache_key: CacheKey | None = None
    cached_view: CachedView | None = None


class Draft(Struct):
    """The combined changes of a round's steps. ``conditions``: names that must not have changed since a moment.

    ``taken``: number of requests that it covers. ``span``: number of moments that it uses.
    """

    own: OwnIds
    answers: list[Applied | Exception]
    views: list[View | None]
    writes: list[ChangeWriter | None]
    depends: list[set[str]]
    commands: Commands
    conditions: dict[int, set[str]]
    changed: set[str]
    span: int = 0
    taken: int = 0
    wakes: bool = False
    durable: bool = False
    observe: int | None = None


class Drafter:
    """Run steps. ``noted``: moment at which this process last recorded a session's origin."""

    def __init__(self, spaces: Namespaces, probe: Probe, noted: Mapping[Origin, int], crowds: Crowds) -> None:
        self._link = spaces.link
        self._probe = probe
        self._noted = noted
        self._crowds = crowds

    def draft(
        self, space: NamespaceKeys, requests: Sequence[Request], bases: Sequence[Basis], own: OwnIds, observe: int
    ) -> Draft:
        """Run the steps of the first requests, up to the first one that depends on an earlier one's change."""
        draft = Draft(own, [], [], [], [], [], {}, set())
        for (scope, step), basis in zip(requests, bases, strict=True):
            depends = _depends(scope, basis)
            if not draft.changed.isdisjoint(depends):
                break  # it must see the change of an earlier request
            draft.taken += 1
            moment = own.base + draft.span
            view: View | None = None
            writer: ChangeWriter | None = None
            answer: Applied | Exception
            try:
                view_reader = RedisView(basis.data, scope, moment, self._probe, self._crowds)
                body_reader = BodyReader(self._link.client, space)
                view = view_reader.view(observe, body_reader, body_reader.lately)
                change = step(view)
                noted = moment - self._noted.get(origin_of(scope), 0) < MINUTE
                writer = ChangeWriter(space, scope, basis.data, own, moment, noted=noted)
                self._fetch(space, basis.data, *missing(basis.data, scope, change))
                writer.write(change)
                answer = Applied(change, tuple(range(moment, moment + len(change.entries))), moment)
            except (StoreUnavailable, RedisError):
                raise
            except Exception as error:  # noqa: BLE001 - the request fails alone; its caller gets the error
                answer, view, writer = error, None, None
            draft.answers.append(answer)
            draft.views.append(view)
            draft.writes.append(writer)
            draft.depends.append(depends)
            if basis.cached or (writer is not None and writer.commands):
                conditions = draft.conditions.setdefault(basis.last, set())
                conditions |= depends
                if writer is not None:
                    conditions |= writer.depends
            if writer is None or isinstance(answer, Exception):
                continue
            if answer.change.observe_until is not None:
                draft.observe = answer.change.observe_until
            if not writer.commands:
                continue
            draft.commands += writer.commands
            draft.changed |= writer.changed
            draft.wakes |= writer.wakes
            draft.durable |= scope.durable
            draft.span += max(len(answer.ids), 1)
        return draft

    def _fetch(self, space: NamespaceKeys, data: ViewData, ids: set[int], marks: set[tuple[str, str]]) -> None:
        """Fetch the records and marks that a change needs and the view data lacks."""
        if not (ids or marks):
            return
        wanted = sorted(marks)
        with self._link.client.pipeline(transaction=False) as pipe:
            for id in sorted(ids):
                pipe.hget(space.key("a"), f"{id:016d}")
            for name, session in wanted:
                pipe.hget(space.key("m", name), session)
            answers = pipe.execute()
        for id, record in zip(sorted(ids), answers, strict=False):
            if record is not None:
                data.records[id] = record_of(id, space.namespace, record)
        for mark, blob in zip(wanted, answers[len(ids) :], strict=True):
            data.knowledge[mark] = known_of(blob) if blob is not None else NOTHING

    def alike(self, requests: Sequence[Request], draft: Draft) -> bool:
        """Return True if the steps would decide the same a little later, so that their moment may move."""
        for (_, step), answer, view in zip(requests, draft.answers, draft.views, strict=False):
            if view is None or not isinstance(answer, Applied):
                continue
            later = step(replace(view, now=view.now + TOLERANCE))
            if _shape(later) != _shape(answer.change):
                return False
        return True

    def moved(self, requests: Sequence[Request], draft: Draft, shift: int) -> list[Applied | Exception]:
        """Return the answers for the moment at which they were applied; a step's ids follow from its view's now."""
        moved: list[Applied | Exception] = []
        for (_, step), answer, view in zip(requests, draft.answers, draft.views, strict=False):
            if view is None or not isinstance(answer, Applied):
                moved.append(answer)
                continue
            change = step(replace(view, now=view.now + shift))
            ids = tuple([id + shift for id in answer.ids])
            moved.append(Applied(change, ids, answer.now + shift))
        return moved


# --- Helpers --------------------------------------------------------------------------------------


def _depends(scope: Scope, basis: Basis) -> set[str]:
    """Return the names whose change would matter to a scope."""
    if basis.names is not None:  # a cached view
        names = set(basis.names)
    else:
        data = basis.data
        names = names_of_view(scope.keys, (scope.session, *data.before))
        names.update([of_kin(session) for session in (scope.session, *data.parents, *data.before)])
    if scope.call is not None:
        names.add(of_call(scope.call))
    find = scope.find
    if find is not None:
        names.add(of_action(find.id) if find.id is not None else of_reports(scope.session))
    if scope.waits:
        names.add(QUEUE)
    return names


def origin_of(scope: Scope) -> Origin:
    """Return the origin that the session of a scope states."""
    return scope.namespace, scope.session, scope.parent, scope.continues


def _shape(change: Change) -> tuple[Any, ...]:
    """Return what a change does, without its moments and texts."""
    opening = change.open
    return (
        [(entry.event, entry.verdict, entry.outcome, entry.keys) for entry in change.entries],
        opening and (opening.state, opening.supersedes, opening.lock),
        [(settle.action.id, settle.state) for settle in change.settles],
        [(move.key, move.mark.notified, move.mark.notified_kind) for move in change.moves],
        [(revision.action.id, revision.also) for revision in change.revisions],
    )
