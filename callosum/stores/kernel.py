"""The store over an engine: what records mean stands here and in the modules that this one uses, once for all engines.

::

    scope ─> names ─> engine.transaction ─> look: records -> View ─> step ─> change: Change -> records ─> commit
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import islice
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from callosum.errors import StoreError, StoreUnavailable, Unconfirmed
from callosum.model import Action, Applied, Entry, Event, Scope, State
from callosum.person import ACCEPTING, require_person
from callosum.policy.commitments import is_in_force, lookup_keys
from callosum.process import alive
from callosum.stores import names
from callosum.stores.base import (
    GATE_PREFIX,
    KEY_IN_USE,
    REGISTRATION_INTERVAL,
    SEARCHED_ENTRIES,
    Ancestry,
    NearbyAction,
    Probe,
    Request,
    StoreCheck,
    run_separately,
)
from callosum.stores.crowd import Crowds
from callosum.stores.draft import Draft
from callosum.stores.forgetting import EXAMINED, PROGRESS, before_the_newest, examine, forget, free, leave
from callosum.stores.key_views import KeyReader
from callosum.stores.port import Engine, Overtaken, Uncertain
from callosum.stores.records import LIVE, ActionRecord, probed
from callosum.stores.view import ScopeReader, bodies, touched, wanted
from callosum.stores.writes import apply

_T = TypeVar("_T")
MOST_TRIES: Final = 64
"""Number of times that a batch runs at most, because others changed meanwhile what it had read."""
_OPENED: Final = frozenset((State.OPEN, State.QUEUED))
_EXAMINED_LIVE: Final = 1000
"""Number of other sessions' newest unreported actions that ``underway`` examines."""


class Kernel:
    """A ``Store`` over any engine, which copies use. ``probe`` tells whether a host process is alive."""

    def __init__(self, engine: Engine, *, probe: Probe = alive) -> None:
        self.engine = self._engine = engine
        self._probe = probe
        self._crowds = Crowds()
        self._passed = 0

    # --- Transactions ----------------------------------------------------------------------------

    def transact(self, requests: Sequence[Request]) -> list[Applied | Exception]:
        """Run each step on its view and apply its change, as ``Store.transact`` says."""
        done = None
        for tries in range(MOST_TRIES):
            try:
                done = self._committed(requests, wait=True, tries=tries)
                break
            except Overtaken:
                continue
            except StoreUnavailable:
                raise
            except Exception:
                if len(requests) == 1:
                    raise
                return run_separately(partial(Kernel.transact, self), requests)
        if done is None:
            raise StoreUnavailable("the store is too busy: what was read changes again and again")
        answers, seq = done
        if seq:
            try:
                self._engine.sync(seq)
            except StoreError as error:
                raise Unconfirmed(str(error), answers) from error
        return answers

    def _committed(
        self, requests: Sequence[Request], *, wait: bool, tries: int
    ) -> tuple[list[Applied | Exception], int] | None:
        """Run and commit a batch. Return the answers and the entry up to which it must be synced (0: need not be).

        Return None if the batch cannot begin at once and shall not wait.
        """
        engine = self._engine
        first = [name for scope, _ in requests for name in wanted(scope)] if engine.prefetches else ()
        transaction = engine.begin(requests, first, wait=wait, tries=tries)
        if transaction is None:
            return None
        durable = False
        answers: list[Applied | Exception] = []
        try:
            draft = Draft(transaction)
            for scope, step in requests:
                if scope.durable:
                    if (refusal := transaction.refusal()) is not None:
                        answers.append(refusal)
                        continue
                    durable = True
                try:
                    look = ScopeReader(draft, scope, self._probe, self._crowds)
                    answers += (apply(draft, look, step(look.view())),)
                except Exception as error:  # noqa: BLE001 - it fails alone; the caller gets it as the answer
                    draft.drop()
                    self._crowds.forget()
                    answers.append(error)
            transaction.commit(draft.changed, draft.written, durable=durable)
        except Uncertain as error:
            raise Unconfirmed(str(error), answers, reachable=False) from error
        except BaseException as error:
            transaction.rollback()
            self._crowds.forget()  # may hold what the batch itself wrote
            if isinstance(error, Unconfirmed):
                error.answers = answers
            if (explained := engine.explained(error)) is error:
                raise
            raise explained from error
        return answers, _newest(answers, transaction.last) if durable else 0

    # --- Reading ---------------------------------------------------------------------------------

    def _reading(self, read: Callable[[Draft], _T]) -> _T:
        with self._engine.snapshot() as reader:
            return read(Draft(reader))

    def action(self, namespace: str, id: int) -> Action | None:
        record = self._reading(lambda draft: draft.action(namespace, id))
        return self._shown(record) if record is not None else None

    def _shown(self, record: ActionRecord) -> Action:
        return probed(record.action, self._probe)

    def live(self, namespace: str | None, states: Sequence[State], key: str | None = None) -> list[Action]:
        return [self._shown(one) for one in self._reading(lambda draft: _live(draft, namespace, key, states))]

    def recent(
        self,
        namespace: str,
        key: str | None = None,
        limit: int = 20,
        *,
        floor: int = 0,
        besides: Sequence[str] = (),
        within: int = 20_000,
    ) -> list[Action]:
        with self._engine.snapshot() as reader:
            draft = Draft(reader)
            records = (draft.action(namespace, id) for id in draft.opened(namespace, within))
            found = (
                self._shown(record)
                for record in records
                if record is not None and record.opened and record.action.state not in (State.QUEUED, State.ASKED)
                if record.action.tier >= floor and record.action.session not in besides
                if key in (None, record.action.key)
            )
            return [*islice(found, limit)]

    def touched(self, namespace: str, sessions: Sequence[str], limit: int = 32) -> list[Action]:
        found = self._reading(lambda draft: touched(draft, namespace, sessions, SEARCHED_ENTRIES, limit))
        return [self._shown(record) for record in found]

    def nearby(self, namespace: str, sessions: Sequence[str], keys: Sequence[str]) -> list[NearbyAction]:
        with self._engine.snapshot() as reader:
            draft = Draft(reader)
            scopes = [Scope(namespace, session, live=True) for session in sessions or ("",)]
            looks = [ScopeReader(draft, scope, self._probe, self._crowds) for scope in scopes]
            found = KeyReader(draft, scopes[0], self._probe, self._crowds).around(keys, sessions)
            nearby = [NearbyAction(action, max(look.last_look(action.key) for look in looks)) for action in found]
        return sorted(nearby, key=lambda one: -(one.action.ended or one.action.started))

    def underway(self, namespace: str, sessions: Sequence[str], floor: int, limit: int = 32) -> list[Action]:
        with self._engine.snapshot() as reader:
            draft, own = Draft(reader), {names.digest(session) for session in sessions}
            found = sorted([name for name, _ in draft.under(names.named(b"o", namespace))], key=names.id_in)
            older = [name for name in found[:-_EXAMINED_LIVE] if name[17:33] in own]
            records = _records(draft, older + found[-_EXAMINED_LIVE:])
        return [
            self._shown(one)
            for one in reversed(records)
            if one.live()
            and (one.action.session in sessions or (one.action.tier >= floor and one.action.state in _OPENED))
        ][:limit]

    def commitments(self, namespace: str | None, keys: Sequence[str] | None = None) -> list[Action]:
        with self._engine.snapshot() as reader:
            draft = Draft(reader)
            records = _records(draft, [name for name, _ in draft.under(_prefix(b"x", namespace))])
        return [
            self._shown(one)
            for one in sorted(records, key=_id_of)
            if is_in_force(one.action, draft.now)
            and (keys is None or not set(keys).isdisjoint(key.name for key in lookup_keys(one.action)))
        ]

    def bodies(self, namespace: str, ids: Sequence[int]) -> dict[int, bytes]:
        return self._reading(lambda draft: bodies(draft, namespace, ids))

    def farewells(self, namespace: str, limit: int = 20) -> list[Entry]:
        with self._engine.snapshot() as reader:
            draft = Draft(reader)
            found = draft.under(names.named(b"h", namespace), limit, newest=True)
            said = draft.bodies(namespace, [names.id_in(name) for name, _ in found])
        return [
            Entry(Event.HOST, session, namespace, seq, body=msgspec.json.decode(said[seq]))
            for name, session in found
            if (seq := names.id_in(name)) in said
        ]

    def kin(self, namespace: str, session: str) -> Ancestry:
        known = self._reading(lambda draft: draft.session(namespace, session))
        return Ancestry(known.parent, known.continues)

    def now(self) -> int:
        with self._engine.snapshot() as reader:
            return reader.time

    def observing(self) -> int:
        return self._reading(lambda draft: draft.fact("observe"))

    def entries(
        self,
        *,
        after: int = 0,
        limit: int = 500,
        namespace: str | None = None,
        session: str | None = None,
        key: str | None = None,
        newest: bool = False,
    ) -> list[Entry]:
        with self._engine.snapshot() as reader:
            return reader.page(after, limit, newest=newest, namespace=namespace, session=session, key=key, settled=True)

    # --- Upkeep ----------------------------------------------------------------------------------

    def _changing(self, change: Callable[[Draft], tuple[_T, Collection[Entry]]], *, wait: bool = True) -> _T | None:
        """Write what is put into the draft of a transaction without keys, and drop entries.

        Return None if that cannot be done at once and shall not ``wait``.
        """
        for tries in range(MOST_TRIES):
            transaction = self._engine.begin((), (), wait=wait, tries=tries)
            if transaction is None:
                return None
            try:
                draft = Draft(transaction)
                answer, dropped = change(draft)
                draft.keep(())
                for entry in dropped:
                    draft.known.pop(names.action(entry.namespace, entry.seq), None)
                if draft.changed or dropped:
                    transaction.commit(draft.changed, (), dropped=dropped)
                else:
                    transaction.rollback()
            except Overtaken:
                continue
            except BaseException as error:
                transaction.rollback()
                raise self._engine.explained(error) from error
            return answer
        raise StoreUnavailable("the store is too busy: others changed what was read, again and again")

    def maintain(self, horizon: int, budget: int = 2000) -> int:
        """Forget as ``Store.maintain`` says, from where the last call stopped, in whatever process."""
        with self._engine.snapshot() as reader:
            draft = Draft(reader)
            going, at = examine(draft, horizon, budget)
            if not going and at == (draft.get(PROGRESS) or b""):
                return 0
        return self._changing(lambda draft: (forget(draft, horizon, going, at), ()), wait=bool(going)) or 0

    def take(
        self, until: int, horizon: int, limit: int = 5000, *, delete: bool = False, only: Collection[int] | None = None
    ) -> list[Entry]:
        if only is None or not delete:
            found = self._free(until, horizon, limit)
            if not delete:
                return found
            only = {entry.seq for entry in found}
        gone = sorted(seq for seq in only if seq <= until)
        for first in range(0, len(gone), EXAMINED):
            self._changing(partial(leave, gone[first : first + EXAMINED], horizon))
        return []

    def _free(self, until: int, horizon: int, limit: int) -> list[Entry]:
        """Return the oldest entries that may leave, from the last position on, a look for each page.

        Entries that had to stay are not examined again before the end was reached.
        """
        found: list[Entry] = []
        start = after = self._passed if self._passed < until else 0
        while len(found) < limit:
            with self._engine.snapshot() as reader:
                page = before_the_newest(reader, after, until)
                found += free(Draft(reader), page, horizon)
            if len(page) == EXAMINED:
                after = page[-1].seq
            elif start and not found:
                start = after = 0  # entries that were passed may be free by now
            else:
                break
        self._passed = found[0].seq - 1 if len(found) >= limit > 0 else 0
        return found[:limit]

    def register(self, fingerprint: str) -> int:
        name = names.fact(GATE_PREFIX + fingerprint)

        def note(draft: Draft) -> tuple[int, Collection[Entry]]:
            now = draft.reader.time
            if (draft.get(name) or 0) < now - REGISTRATION_INTERVAL:
                draft.new[name] = now
            return _content_keys(draft, now), ()

        return self._changing(note) or 0

    def prove(self) -> None:
        self._engine.prove()

    def accept(self, *, proven: bool = False) -> str:
        if not proven:
            require_person(self, ACCEPTING)
        return self._engine.accept(self.now())

    def size(self) -> int:
        return self._engine.size()

    def check(self) -> StoreCheck:
        found = self._engine.check()
        with self._engine.snapshot() as reader:
            draft = Draft(reader)
            live = len(_live(draft, None, None, [*LIVE]))
            return replace(found, live=live, content_keys=_content_keys(draft, reader.time))

    def close(self) -> None:
        self._engine.close()


def _newest(answers: Sequence[Applied | Exception], last: int) -> int:
    """Return the entry up to which a batch must be on disk: what it wrote, or, if it wrote nothing, all it has read.

    ``last`` is the newest entry. Waiters poll again and again: if nothing was written, nothing is synced.
    """
    newest = 0
    for one in answers:
        if isinstance(one, Applied):
            wrote = one.change.settles or one.change.moves
            newest = max(newest, one.ids[-1] if one.ids else one.now if wrote else last)
    return newest


def _live(draft: Draft, namespace: str | None, key: str | None, states: Sequence[State]) -> list[ActionRecord]:
    """Return the live actions in one of ``states``, oldest first. Without a key no others are read."""
    wanted = LIVE.intersection(states)
    if key is not None and namespace is not None:
        records = draft.actions(namespace, draft.key(namespace, key).live)
    else:
        found = draft.under(_prefix(b"o", namespace))
        records = _records(draft, [name for name, state in found if state is True or state in wanted])
    records = [one for one in records if one.live() and one.action.state in wanted]
    if key is not None:
        records = [one for one in records if key in [mine.name for mine in one.action.keys]]
    return sorted(records, key=_id_of)


def _id_of(record: ActionRecord) -> int:
    return record.action.id


def _prefix(kind: bytes, namespace: str | None) -> bytes:
    """Return how the names of a kind's records begin, in a namespace or in all."""
    return names.named(kind, namespace) if namespace is not None else kind


def _records(draft: Draft, found: Sequence[bytes]) -> list[ActionRecord]:
    """Return the actions at the end of other records' names, each once."""
    wanted = list(dict.fromkeys(b"a" + name[1:17] + name[-8:] for name in found))
    return [record for record in draft.all(wanted) if record]


def _content_keys(draft: Draft, now: int) -> int:
    """Return the number of content keys with which gates registered in the last day."""
    found = draft.under(names.named(b"f", "", GATE_PREFIX.encode()))
    return sum(1 for _, moment in found if moment > now - KEY_IN_USE)
