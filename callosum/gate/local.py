"""The gate embedded in this process."""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Self, TypeVar

from msgspec.structs import replace

from callosum import standing, wire
from callosum.corpus.embedded_log import EmbeddedLog
from callosum.errors import CallosumError, ConfigError, GateUnavailable, NotAPerson, StoreError, StoreUnavailable
from callosum.gate import intake
from callosum.gate.check import outcome_of
from callosum.gate.operations import SERVED, UNKNOWN, Caller, Effects, Observer, Operations, Read, Sleep
from callosum.journal import Journal, Rotation
from callosum.merging.write_merger import WriteMerger
from callosum.model import (
    DEFAULT_NAMESPACE,
    Applied,
    Call,
    Classification,
    Decision,
    Entry,
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
from callosum.redact import summarise
from callosum.refusals import Refusals
from callosum.rulebook import Rulebook, content_secret
from callosum.rules import StandingApproval
from callosum.settings import Settings, load
from callosum.spool import MAX_LINE, Spool
from callosum.stores.base import Fleeting, Store, Waking, different_keys
from callosum.stores.opening import open_store
from callosum.wire import LateCall, LateClassification, encode
from callosum.worktree import located

logger = logging.getLogger("callosum")

_SLEEP: Final = time.sleep
UPKEEP_EVERY: Final = 1000
"""One decision in so many also forgets what nobody can ask for, and rotates the journal.

Which ones is told by their ids, so that processes which decide once and end do their share.
"""
_BACKLOG: Final = 1000

_FOR_PEOPLE: Final = frozenset(("release", "resolve", "approve", "deny"))
"""Operations of which some only a person may ask for."""

R = TypeVar("R")
T = TypeVar("T")


class LocalGate(Gate):
    """The gate embedded in this process, over a store that other processes may share.

    ``state`` is the state folder (default: settings). ``settings`` replaces the configuration that
    would be looked up, ``store`` the one that the settings name. ``observer`` is handed each
    decision, each outcome and what else was journalled, after it is in the store; what it raises is logged and harms
    nobody.
    ``sleep`` is for tests. Close it, or use it as a context manager; usable from any thread.
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
        self.store: Store = store if store is not None else open_store(settings)
        # A store of several machines wakes who waits; other sleeps are the tests'.
        self._sleep = self.store.pause if sleep is _SLEEP and isinstance(self.store, Waking) else sleep
        if rules is None:
            secret = content_secret(folder) if store is None else b""
            rules = Rulebook.of(settings, secret=secret)
        self.rules = rules
        self.operations = Operations(settings, self.store, rules, observer)
        self.operations.refused = Refusals()
        if settings.snapshots and not isinstance(self.store, Fleeting):
            self.operations.merge_with(WriteMerger(folder, self.store, rules))
        self._rotation = Rotation(self.store, folder, age=settings.journal_age, size=settings.journal_size)
        self.spool = Spool(str(folder))
        """What hooks, clients and this gate could not tell a gate; taken in before each decision."""
        self._backlog: deque[bytes] = deque(maxlen=_BACKLOG)
        """Records for which the spool had no room."""
        self._told_of_keys = False
        self._daily: EmbeddedLog | None = None
        self._keep_log()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Write the daily log and the copies of files, and close the store's connections. Idempotent."""
        self._end_log()
        if self.operations.writers is not None:
            self.operations.writers.close()
        self.store.close()

    def add_observer(self, observer: Observer) -> Callable[[], None]:
        """Has one more handed what is decided and journalled, behind those before it; returns what ends that."""
        operations = self.operations
        operations.observers = (*operations.observers, observer)

        def remove() -> None:
            left = list(operations.observers)
            if observer in left:
                left.remove(observer)
                operations.observers = tuple(left)

        return remove

    def leave_log(self) -> Callable[[], None]:
        """Leave the daily log to whoever tells of this gate's calls from now on; return what takes it up again."""
        self._end_log()
        return self._keep_log

    def _keep_log(self) -> None:
        """Write what is journalled from now on to the daily log, if the settings and the store want one."""
        settings = self.settings
        if self._daily is None and settings.corpus_log and not isinstance(self.store, Fleeting):
            state = Path(settings.state)
            self._daily = EmbeddedLog(Journal(self.store, state).entry, state, size=settings.corpus_size)
            self.operations.tail = self._daily.take

    def _end_log(self) -> None:
        daily, self._daily = self._daily, None
        if daily is not None:
            self.operations.tail = None
            daily.close()

    located = staticmethod(located)
    """What of a call this machine's disk tells is added here, since its tools run here."""
    here: ClassVar[bool] = True
    """The tools of its calls run on this machine, so that links may be followed for the guard."""

    # --- the gate's operations -------------------------------------------------------------------

    def intercept(self, call: Call) -> Decision:
        if self._backlog or self.spool.waiting():
            self.take_in()
        decision = self._drive(self.operations.intercept(self.located(call), here=self.here))
        if decision.id % UPKEEP_EVERY == 0:
            self.upkeep()
        return decision

    def explain(self, call: Call) -> tuple[Classification, Decision]:
        """Says what a call would get now, and why. Nothing is recorded and nothing waits."""
        return self._drive(self.operations.explain(self.located(call), here=self.here))

    def handle(self, request: GateRequest[R], caller: Caller = UNKNOWN) -> R:
        """As in ``Gate``. ``caller`` is what is known of the caller besides; of a call's, what the call says counts."""
        if isinstance(request, Call):
            return self.intercept(request)  # type: ignore[return-value]  # a call's R is Decision
        operation = request.operation
        if operation == "lock" and (self._backlog or self.spool.waiting()):
            self.take_in()
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
        """Return the caller as a person where the request needs one.

        Raises ``NotAPerson`` in a process behind which an agent's host stands.
        """
        match request:
            case wire.Resolve() if caller.person is not False:
                try:
                    ancestry = self.require_person("resolve a call for another instance, or one of tier 4")
                except NotAPerson:
                    if caller.person or not request.by:
                        raise
                    return replace(caller, person=False)  # ``by`` names a session
            case wire.ReleaseAt(force=True):
                ancestry = self.require_person("release another's lease")
            case wire.Approve(channel=lifecycle.HOST):
                return caller  # no person's word; whether it counts is for the settings to say
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
        """Journals what a host tells that is no call, such as ``SessionEnd``.

        Once a session has ended, any session of its instance owns what it has committed to.
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
        """As in ``Gate``; with ``id`` just that action's lease."""
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
        """As in ``Gate``. ``person``: whether ``by`` is a person or a session; by default the proof decides."""
        asked = wire.Resolve(id=id, happened=happened, by=by, note=note, namespace=namespace)
        return self.handle(asked, Caller(person=person))

    def observe(self, seconds: float, *, by: str = "", namespace: str = DEFAULT_NAMESPACE) -> float:
        """Let everything pass for ``seconds`` (0 ends it, which anybody may do), in all processes.

        Return until when, in Unix seconds. Everything is still decided and journalled, with what would have been
        stopped.
        """
        ancestry = self.require_person("switch the gate off") if seconds else ()
        return self._drive(self.operations.observe(seconds, by=by, namespace=namespace, ancestry=ancestry))

    def revoke(self, id: int, *, by: str, namespace: str = DEFAULT_NAMESPACE) -> StandingApproval:
        """End a standing approval, and journal who did. Raises ``ConfigError`` if there is none of this id."""
        self.require_person("revoke a standing approval")
        found = standing.revoke(self.settings.state, id)
        self.rules.reload()
        self._drive(self.operations.standing("revoked", found, by=by, channel="cli", namespace=namespace))
        return found

    def require_person(self, what: str) -> tuple[str, ...]:
        """Return the names of this process's ancestors; raise ``NotAPerson`` if one of them runs an agent."""
        return require_person(self.store, what)

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
        """Returns a page of the journal, as ``Store.entries`` does (without rotated segments)."""
        return self.store.entries(
            after=after, limit=limit, namespace=namespace, session=session, key=key, newest=newest
        )

    def sweep(self) -> int:
        """Settles leases, waiters and questions that ran out and that nobody has met since; returns how many."""
        return self._drive(self.operations.sweep())

    # --- when the store is away -------------------------------------------------------------------

    def fallback(self, call: Call, error: Exception) -> Decision:
        """Decides by the call's tier alone, as ``Standby`` says: the rules are here, only the store is away."""
        tier = self.rules.current().classify(call).tier
        if not without_gate(tier).proceed:
            raise GateUnavailable(
                f"the gate cannot be asked ({error}), and a tier {tier} call does not run without it"
            ) from error
        logger.warning("%s runs without the gate: %s", call.tool, error)
        return Decision(
            proceed=True,
            tier=tier,
            context_key=None,
            id=0,
            verdict=Verdict.ALLOW,
            context_keys=(),
            rule="",
            fallback=True,
        )

    def remember_late(self, call: Call, outcome: Outcome | str) -> None:
        """Spools a call that ran while the store was away; it is entered before the next decision."""
        found = self._found(self.located(call))
        ended = Outcome(outcome)
        call = replace(call, params=self._summary(call), call_id=call.call_id or os.urandom(16).hex())
        self._keep(LateCall(call=call, outcome=ended, v=2, ended=time.time(), **found))

    def _spool_report(self, report: wire.Complete) -> None:
        """Spools a report that the store did not take."""
        tool, key = report.tool, report.context_key
        call = Call(
            report.instance,
            tool or intake.UNNAMED,
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
            LateCall(call=call, outcome=outcome, kind=intake.REPORT, v=2, id=report.id, ended=time.time(), **found)
        )

    def _found(self, call: Call) -> dict[str, Any]:
        found = self.rules.current().classify(call)
        fingerprint = self.rules.fingerprint
        shown = LateClassification(
            tier=found.tier,
            keys=found.keys,
            rule=found.rule,
            effect=found.effect,
            content=found.content,
            gap=found.gap,
        )
        return {"found": shown, "content_key": fingerprint}

    def _summary(self, call: Call) -> Mapping[str, Any]:
        return summarise(call.params, mode=self.settings.journal_params) or {} if call.params else {}

    def keep(self, record: LateCall) -> bool:
        """Spool a record, which is entered before the next decision. Return False if the spool takes none now."""
        return self.spool.add(_line(record))

    def _keep(self, record: LateCall) -> None:
        line = _line(record)
        if not self.spool.add(line):
            self._backlog.append(line)

    def take_in(self) -> None:
        """Enters what the spool holds. Raises ``StoreError`` where the store does not take it; then it stays there."""
        while self._backlog:
            try:
                line = self._backlog.popleft()  # another thread may be at it too
            except IndexError:
                break
            try:
                self._enter([line])
            except StoreError:
                self._backlog.appendleft(line)
                raise
        self.spool.take(self._enter)

    def _enter(self, lines: Sequence[bytes]) -> None:
        for record in intake.records_of(lines):
            try:
                self._drive(self.operations.take_in(record))
            except StoreError:
                raise
            except Exception as error:  # noqa: BLE001 - one record must not keep the others, and all decisions, waiting
                logger.warning("a spooled %s of %s is not entered: %s", record.kind, record.call.actor, error)

    # --- inside ----------------------------------------------------------------------------------

    def _drive(self, effects: Effects[T]) -> T:
        """Run an operation to its end, with calls that block."""
        answer: Any
        try:
            need = effects.send(None)
            while True:
                if type(need) is Read:
                    answer = need.read()
                elif type(need) is Sleep:
                    answer = self._sleep(need.seconds)
                else:
                    try:
                        (answer,) = self.store.transact((need,))  # type: ignore[arg-type]  # what is left is a Request
                        if type(answer) is not Applied:
                            raise answer
                    except CallosumError as error:
                        need = effects.throw(error)  # it may undo what it did, or keep what it could not say
                        continue
                need = effects.send(answer)
        except StopIteration as end:
            value: T = end.value
            return value

    def upkeep(self) -> None:
        """Forgets a little and rotates the journal. A failure here is no failure of a call."""
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
        """Notes at the store that this gate works there, and warns once of others whose content key is another one."""
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


def _line(record: LateCall) -> bytes:
    """Return a record as a line of the spool; one that is too long loses its summary."""
    line = encode(record)
    if len(line) <= MAX_LINE:
        return line
    return encode(replace(record, call=replace(record.call, params={}, schema=None, description=None)))
