"""The gate embedded in this process."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn, Self, TypeVar

from msgspec import to_builtins
from msgspec.structs import replace

from callosum import standing, wire
from callosum.corpus.follower import EntryLog, Follower
from callosum.errors import CallosumError, ConfigError, GateUnavailable, NotAPerson, StoreError, StoreUnavailable
from callosum.gate import spool_records
from callosum.gate.check import outcome_of
from callosum.gate.effects import Effects, Read, Sleep, TakenIn
from callosum.gate.operations import SERVED, UNKNOWN, Caller, Observer, Operations
from callosum.gate.pending_records import PendingRecords
from callosum.journal import Journal, Rotation
from callosum.merging.write_merger import WriteMerger
from callosum.model import (
    DEFAULT_NAMESPACE,
    Applied,
    Call,
    Classification,
    Decision,
    GateRequest,
    Key,
    Outcome,
    Report,
    Verdict,
)
from callosum.operations import Gate
from callosum.person import require_person
from callosum.policy import lifecycle
from callosum.policy.evidence import horizon
from callosum.policy.table import fallback as without_gate
from callosum.process import acting, own_session
from callosum.redact import summarise
from callosum.refusals import Refusals
from callosum.rulebook import Rulebook, content_secret
from callosum.rules import StandingApproval
from callosum.settings import Settings, load
from callosum.spool import MAX_FILE, MAX_PAGE, WAIT, Spool, written
from callosum.stores.base import Notifying, Store, Transient, different_keys
from callosum.stores.opening import open_store
from callosum.wire import LateCall, LateClassification
from callosum.worktree import located

logger = logging.getLogger("callosum")

_SLEEP: Final = time.sleep
UPKEEP_EVERY: Final = 1000
"""Number of decisions per upkeep, which forgets data that no call can need any more and rotates the journal.

The ids of the decisions select the ones that do it, so that processes that decide once and end do their share.
"""
_BACKLOG: Final = 1000
"""Maximum number of records kept in memory while the spool has no room."""

_FOR_PEOPLE: Final = frozenset(("release", "resolve", "approve", "deny"))
"""Operations that reserve some of their requests for people."""

R = TypeVar("R")
T = TypeVar("T")


class LocalGate(Gate):
    """The gate embedded in this process, over a store that other processes may share.

    ``state`` is the state folder (default: from the settings). ``settings`` replaces the configuration that would be
    loaded, and ``store`` the one that the settings name. ``observer`` receives each decision, each outcome and
    everything else that was journalled, after the store has written it; its exceptions are logged and harm nothing.
    ``sleep`` is for tests.

    Close the gate or use it as a context manager. It may be used from any thread.
    """

    def __init__(
        self,
        state: str | Path | None = None,
        *,
        settings: Settings | None = None,
        store: Store | None = None,
        rules: Rulebook | None = None,
        observer: Observer | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if settings is None:
            settings = load({"state": str(state)} if state is not None else None)
        self.settings = settings
        folder = Path(settings.state)
        if folder.is_file():
            raise ConfigError(f"{folder} is a file; expected the folder in which the gate keeps its state", at="state")
        self.store: Store = store if store is not None else open_store(settings)
        # A store of several machines wakes waiters; any other sleep comes from a test.
        self._sleep = self.store.pause if sleep is _SLEEP and isinstance(self.store, Notifying) else sleep
        if rules is None:
            secret = content_secret(folder) if store is None else b""
            rules = Rulebook.of(settings, secret=secret)
        self.rules = rules
        self.operations = Operations(settings, self.store, rules, observer)
        self.operations.refused = Refusals()
        if settings.snapshots and not isinstance(self.store, Transient):
            self.operations.merge_with(WriteMerger(folder, self.store, rules))
        self._rotation = Rotation(self.store, folder, age=settings.journal_age, size=settings.journal_size)
        self.spool = Spool(str(folder))
        """Holds what hooks, clients and this gate could not send to a gate. It is part of what a decision sees."""
        self.pending = PendingRecords(self.spool, rules, self.store)
        self.entries = self.store.entries
        """Returns a page of the journal (without rotated segments)."""
        self._looking = threading.Lock()
        self._backlog: deque[bytes] = deque(maxlen=_BACKLOG)
        """Records for which the spool had no room."""
        self._told_of_keys = False
        self.follower = Follower(Journal(self.store, folder).entry)
        """Hands on what this gate journals."""
        keeps_log = settings.corpus_log and not isinstance(self.store, Transient)
        self._log = EntryLog(self.follower, folder, settings.corpus_size if keeps_log else 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Write the daily log and the copies of files, and close the store's connections. Idempotent."""
        self.leave_log()
        self.follower.close()
        if self.operations.writers is not None:
            self.operations.writers.close()
        self.store.close()
        self.__dict__["_drive"] = _refuse_closed

    def add_observer(self, observer: Observer) -> Callable[[], None]:
        """Add an observer behind the existing ones. Return a function that removes it."""
        operations = self.operations
        operations.observers = (*operations.observers, observer)

        def remove() -> None:
            left = list(operations.observers)
            if observer in left:
                left.remove(observer)
                operations.observers = tuple(left)

        return remove

    def leave_log(self) -> Callable[[], None]:
        """Stop writing the daily log, because another component now writes it.

        Return a function that starts it again.
        """
        return self._log.leave()

    located = staticmethod(located)
    """Adds what this machine's disk says about a call, since its tools run here."""
    here: bool = True
    """True if the tools of its calls run on this machine, so that its disk may be read for them."""

    # --- The gate's operations -------------------------------------------------------------------

    def intercept(self, call: Call, *, as_it_is: bool = False) -> Decision:
        if not as_it_is:  # the name of the process costs two calls, and a call that names its session none
            if type(call) is not Call:
                call = acting(call)
            elif call.session is None:
                call = replace(call, session=own_session())
        if self._backlog or self.spool.waiting():
            self.take_in(MAX_PAGE, wait=0)
        decision = self._drive(self.operations.intercept(self.located(call) if self.here else call, here=self.here))
        if decision.id % UPKEEP_EVERY == 0:
            self.upkeep()
        return decision

    def explain(self, call: Call) -> tuple[Classification, Decision]:
        """Return a call's classification and the decision it would get now.

        Nothing is recorded and nothing waits.
        """
        return self._drive(self.operations.explain(self.located(call) if self.here else call, here=self.here))

    def handle(self, request: GateRequest[R], caller: Caller = UNKNOWN) -> R:
        """Serve a request as ``Gate`` does.

        ``caller`` is what else is known of the caller. For a call, only what the call itself says counts.
        """
        operation = request.operation
        if operation == "intercept":
            return self.intercept(request, as_it_is=True)  # type: ignore[arg-type, return-value]  # a call's R is Decision
        if operation == "lock" and (self._backlog or self.spool.waiting()):
            self.take_in(MAX_PAGE, wait=0)
        if operation in _FOR_PEOPLE:
            caller = self._proven(request, caller)
        serve = SERVED.get(operation)
        if serve is None:
            raise ConfigError(f"an embedded gate does not serve {operation}", at="request")
        effects: Effects[R] = serve(self.operations, request, caller)
        try:
            return self._drive(effects)
        except StoreUnavailable as error:
            if not isinstance(request, wire.Complete):
                raise
            self._spool_report(request)
            raise StoreUnavailable(f"{error}; the report is kept and is entered before the next decision") from error

    def _proven(self, request: object, caller: Caller) -> Caller:
        """Return the caller as a person if the request needs one.

        Raises:
            NotAPerson: An agent's host is among the parent processes.
        """
        match request:
            case wire.Resolve() if caller.person is not False:
                try:
                    ancestry = self.require_person("resolve a call for another instance, or one of tier 4")
                except NotAPerson:
                    if caller.person or not request.by:
                        raise
                    return replace(caller, person=False)  # then ``by`` names a session
            case wire.ReleaseAt(force=True):
                ancestry = self.require_person("release another's lease")
            case wire.Approve(channel=lifecycle.HOST):
                return caller  # not a person's answer; the settings decide whether it counts
            case wire.Approve():
                ancestry = self.require_person("approve a call" if request.agrees else "refuse a call")
            case _:
                return caller
        return replace(caller, person=True, ancestry=ancestry)

    def heard(
        self,
        instance: str,
        what: str,
        details: Mapping[str, Any],
        *,
        session: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> None:
        """Journal a host event that is not a call, such as ``SessionEnd``.

        Once a session has ended, any session of its instance owns its commitments.
        """
        self._drive(self.operations.heard(instance, what, details, session=session, namespace=namespace))

    def release(
        self,
        instance: str,
        context_key: str,
        *,
        session: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        by: str = "",
        force: bool = False,
        id: int | None = None,
    ) -> Report:
        """Free leases as ``Gate`` does; with ``id`` only that action's lease."""
        if session is None and not force and not by:
            session = own_session()
        asked = wire.ReleaseAt(
            instance=instance, context_key=context_key, session=session, namespace=namespace, by=by, force=force
        )
        return self._drive(self.operations.release(asked, self._proven(asked, UNKNOWN), id=id))

    def resolve(
        self,
        id: int,
        *,
        happened: bool,
        by: str = "",
        note: str = "",
        namespace: str = DEFAULT_NAMESPACE,
        person: bool | None = None,
    ) -> Report:
        """End an unknown action as ``Gate`` does.

        ``person`` says whether ``by`` is a person or a session; by default the gate checks.
        """
        asked = wire.Resolve(id=id, happened=happened, by=by, note=note, namespace=namespace)
        return self.handle(asked, Caller(person=person))

    def observe(self, seconds: float, *, by: str = "", namespace: str = DEFAULT_NAMESPACE) -> float:
        """Let every call run for ``seconds``, in all processes. With 0 this ends, which needs no person.

        Return the end in Unix seconds. Every call is still decided and journalled, with the verdict it would have got.
        """
        ancestry = self.require_person("switch the gate off") if seconds else ()
        return self._drive(self.operations.observe(seconds, by=by, namespace=namespace, ancestry=ancestry))

    def revoke(self, id: int, *, by: str, namespace: str = DEFAULT_NAMESPACE) -> StandingApproval:
        """End a standing approval, and journal who ended it.

        Raises:
            ConfigError: No standing approval has this id.
        """
        self.require_person("revoke a standing approval")
        found = standing.revoke(self.settings.state, id)
        self.rules.reload()
        self._drive(self.operations.standing("revoked", found, by=by, channel="cli", namespace=namespace))
        return found

    def require_person(self, what: str) -> tuple[str, ...]:
        """Return the names of this process's ancestors.

        Raises:
            NotAPerson: One of them runs an agent.
        """
        return require_person(self.store, what)

    def sweep(self) -> int:
        """Settle leases, waiters and questions whose time ran out. Return how many."""
        return self._drive(self.operations.sweep())

    # --- When the store is unreachable -------------------------------------------------------------------

    def fallback(self, call: Call, error: Exception) -> Decision:
        """Decide by the call's tier alone, as ``Standby`` says: the rules are here, only the store is unreachable."""
        tier = self.rules.current().classify(call).tier
        if not without_gate(tier).proceed:
            raise GateUnavailable(
                f"the gate is unreachable ({error}), and a tier {tier} call does not run without it"
            ) from error
        logger.warning("%s runs without the gate: %s", call.tool, error)
        return Decision(True, tier, None, 0, Verdict.ALLOW, (), "", fallback=True)

    def remember_late(self, call: Call, outcome: Outcome | str) -> None:
        """Spool a call that ran while the store was unreachable. It is entered before the next decision."""
        call = acting(call)
        found = self._found(self.located(call))
        ended = Outcome(outcome)
        call = replace(call, params=self._summary(call), call_id=call.call_id or os.urandom(16).hex())
        self._keep(LateCall(call=call, outcome=ended, v=2, ended=time.time(), **found))

    def _spool_report(self, report: wire.Complete) -> None:
        """Spool a report that the store did not accept."""
        tool, key = report.tool, report.context_key
        call = Call(
            report.instance,
            tool or spool_records.UNNAMED,
            report.params or {},
            report.action,
            report.session,
            report.namespace,
        )
        found: dict[str, Any] = {}
        if report.id is None and tool is not None:
            found = self._found(call)
        elif report.id is None and key:
            found = {"found": LateClassification(tier=0, keys=(Key(key),))}
        call = replace(call, params=self._summary(call) if tool is not None else {})
        outcome = outcome_of(report.result, report.outcome)
        self._keep(
            LateCall(
                call=call, outcome=outcome, kind=spool_records.REPORT, v=2, id=report.id, ended=time.time(), **found
            )
        )

    def _found(self, call: Call) -> dict[str, Any]:
        found = self.rules.current().classify(call)
        fingerprint = self.rules.fingerprint
        shown = LateClassification(
            tier=found.tier, keys=found.keys, rule=found.rule, effect=found.effect, content=found.content, gap=found.gap
        )
        return {"found": shown, "content_key": fingerprint}

    def _summary(self, call: Call) -> Mapping[str, Any]:
        return summarise(call.params, mode=self.settings.journal_params) or {} if call.params else {}

    def keep(self, record: LateCall) -> bool:
        """Spool a record, which is entered before the next decision. Return False if the spool accepts none now."""
        return self.spool.add(written(to_builtins(record)))

    def _keep(self, record: LateCall) -> None:
        line = written(to_builtins(record))
        if not self.spool.add(line):
            self._backlog.append(line)

    def take_in(self, most: int = MAX_FILE, wait: float = WAIT) -> int:
        """Enter what the spool holds, at most ``most`` records of its file, and return how many of those.

        ``wait`` is the number of seconds to wait while another process enters them.

        Raises:
            StoreError: The store does not accept it; the records stay in the spool.
        """
        while self._backlog:
            try:
                line = self._backlog.popleft()  # another thread may have emptied it
            except IndexError:
                break
            try:
                self._enter({}, [line])
            except StoreError:
                self._backlog.appendleft(line)
                raise
        taken = self.spool.take(partial(self._enter, {}), wait, most)
        with self._looking:  # what a thread sees is true when it is written
            self.operations.behind = self.spool.waiting()
        return taken

    def _enter(self, since: dict[tuple[str, str], int], lines: Sequence[bytes]) -> None:
        self._drive(self.operations.take_in(spool_records.records_of(lines), since=since))

    def _taken_in(self, need: TakenIn) -> bool:
        taken = 1
        while self.pending.hold(need.scope, need.tool):
            if not taken or (need.expiry is not None and need.expiry.passed()):
                return False
            taken = self.take_in(10 * MAX_PAGE)
        return True

    # --- Internal ----------------------------------------------------------------------------------

    def _drive(self, effects: Effects[T]) -> T:
        """Run an operation to its end, with blocking calls."""
        answer: Any
        try:
            need = effects.send(None)
            while True:
                if type(need) is Read:
                    answer = need.read()
                elif type(need) is Sleep:
                    answer = self._sleep(need.seconds)
                elif type(need) is TakenIn:
                    answer = self._taken_in(need)
                elif type(need) is list:
                    answer = self.store.transact(need)
                    if self.follower.consumers:
                        self.follower.take(answer)
                else:
                    try:
                        answers = self.store.transact((need,))  # type: ignore[arg-type]  # what is left is a Request
                        (answer,) = answers
                        if type(answer) is not Applied:
                            raise answer
                    except CallosumError as error:
                        if self.follower.consumers:  # what could not be confirmed is journalled
                            self.follower.take((error,))
                        need = effects.throw(error)  # it may undo its change, or spool its report
                        continue
                    if answer.ids and self.follower.consumers:
                        self.follower.take(answers)
                need = effects.send(answer)
        except StopIteration as end:
            value: T = end.value
            return value

    def upkeep(self) -> None:
        """Forget a little old data and rotate the journal. An error here does not fail a call."""
        window = self.rules.current().longest_window
        try:
            before = horizon(self.store.now(), window)
            self.store.maintain(before)
            self._rotation.run(before)
        except StoreError as error:
            logger.warning("upkeep put off: %s", error)
        if self.operations.writers is not None:
            self.operations.writers.prune()
        self.register()

    def register(self) -> None:
        """Register this gate with its store, and warn once if other gates there use another content key."""
        fingerprint = self.rules.fingerprint
        if not fingerprint:
            return
        try:
            keys = self.store.register(fingerprint)
        except StoreError as error:
            logger.warning("the gate could not be registered at its store: %s", error)
            return
        if keys > 1 and not self._told_of_keys:
            logger.warning("%s", different_keys(keys))
        self._told_of_keys = keys > 1


def _refuse_closed(_effects: object) -> NoReturn:
    raise CallosumError("this gate is closed: keep it open as long as it is used, or make a new one")
