"""What one process does in a campaign: its sessions take leases, use them, and record what they see.

::

    intercept or lock ── refused: the next one
          │ let through
    begin the counters ── perhaps renew, repeat, oversleep ── write them back ── complete or release

A request without an answer is sent again under its id, as a client would send it. After some tries its lease is left to
run out.
"""

from __future__ import annotations

import faulthandler
import logging
import mmap
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import msgspec

from callosum import wire
from callosum.client import CallosumClient
from callosum.errors import CallosumError, ConfigError, GateUnavailable, StoreUnavailable
from callosum.gate import LocalGate
from callosum.model import Call, Kind
from callosum.process import this_process
from callosum.settings import Settings
from callosum.stores.base import Store
from callosum.stores.opening import DATABASE, open_store
from chaos.history import Event, Recorder, Verb
from chaos.resource import Counter, Fenced, units

PLACES: Final = tuple(f"file:/c/{tree}/{name}" for tree in "abc" for name in "xy")
"""The single things that the sessions compete for. ``file:/c/a/`` and so on are the trees above them."""
KINDS: Final = {"hold": 30, "lock": 20, "wait": 15, "fresh": 15, "advise": 10, "note": 10}
"""Kinds of calls and their weights.

They are: a call of tier 4, a lock, a call that waits for its turn, one below a tree (or on one) that no session has
used before, a call of tier 3, one of tier 1. Besides these there is ``set``: a call of tier 4 with several keys.
"""
_FRESH: Final = 0.4
"""Seconds after which all workers switch to the next new tree."""
STOP: Final = "stop"
"""The file that ends the workers of a campaign's folder."""
TRIES: Final = 4

T = TypeVar("T")
_waiting: Final = threading.local()
"""``in_line`` is what a thread wants to have done once its call is in the queue."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker process should do. ``name`` is its own, without a colon; no two incarnations share one.

    The process has its own gate over ``store`` (``broken_store``: one of the negative controls), or asks the servers at
    ``urls``. ``ttl`` is the length of every lease in seconds. At most ``apart`` seconds pass between two calls of a
    session. ``kinds`` are the weights of its calls, out of ``KINDS``, and ``places`` is the number of things it
    competes for. Its clock is wrong by ``ahead`` seconds, and becomes wrong after ``jumps`` seconds. With ``ties`` its
    leases may end with the process. With ``broken`` its requests may arrive changed, so a refusal of its input proves
    nothing.

    ``deadline`` is the number of seconds that a client waits for an answer, ``tries`` how often it sends a request that
    gets none, and ``spool`` the folder in which it keeps what it could not report ("": in memory).
    """

    name: str
    folder: str
    seed: int
    ttl: float
    store: str = ""
    broken_store: Literal["", "torn", "unwatched"] = ""
    urls: tuple[str, ...] = ()
    cafile: str = ""
    threads: int = 1
    apart: float = 0.01
    kinds: dict[str, int] = msgspec.field(default_factory=lambda: dict(KINDS))
    places: int = 6
    ahead: float = 0.0
    jumps: bool = False
    ties: bool = False
    broken: bool = False
    deadline: float = 2.0
    tries: int = TRIES
    spool: str = ""


class NoAnswer(Exception):
    """It is not known whether the request was carried out."""


def history_of(folder: Path, name: str) -> Path:
    """Return the history file of one process."""
    return folder / f"history-{name}.jsonl"


def counter_of(folder: Path, place: str) -> Counter:
    """Return the counter that guards one thing."""
    return Counter(folder / f"counter{place.partition(':')[2].replace('/', '-')}")


def clock_of(folder: Path) -> Path:
    """Return the file of one byte that sets the clocks of a campaign's processes wrong while it is 1."""
    return folder / "clock"


def run(plan: Plan) -> None:
    """Run one process until the stop file exists. Its errors, and on SIGUSR1 its stacks, go to ``stacks-NAME``."""
    folder = Path(plan.folder)
    stacks = (folder / f"stacks-{plan.name}").open("w")
    os.dup2(stacks.fileno(), sys.stderr.fileno())
    faulthandler.register(signal.SIGUSR1, stacks, all_threads=True)
    logging.basicConfig(filename=folder / f"log-{plan.name}", force=True)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if plan.ahead:
        _set_clock(plan.ahead, clock_of(folder) if plan.jumps else None)
    with Recorder(history_of(folder, plan.name)) as recorder:
        try:
            gates = _gates(plan)
        except CallosumError:
            recorder.tell(plan.name, "note", "crash", text=traceback.format_exc())
            return
        threads = [
            threading.Thread(target=Sessions(plan, number, gates, recorder).run, name=f"session-{number}")
            for number in range(plan.threads)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for gate in gates:
            _tell_all(gate)
            gate.close()


def _tell_all(gate: Any) -> None:
    """Send what a client could not send to its server, which works again. Wait no longer than a campaign does."""
    until = time.monotonic() + 20
    while isinstance(gate, CallosumClient) and not gate.flush() and time.monotonic() < until:
        time.sleep(0.05)


def _set_clock(ahead: float, switch: Path | None) -> None:
    """Set the clock of this process wrong, as if the machine's had been set. With a switch, only while it is 1."""
    seconds, nanoseconds = time.time, time.time_ns
    on: mmap.mmap | bytes = b"\1"
    if switch is not None:
        with switch.open("rb") as file:
            on = mmap.mmap(file.fileno(), 1, access=mmap.ACCESS_READ)
    time.time = lambda: seconds() + ahead * on[0]
    time.time_ns = lambda: nanoseconds() + int(ahead * 1e9) * on[0]


def _gates(plan: Plan) -> list[Any]:
    """Return the gates that a process asks: another one if one gives no answer."""
    folder = Path(plan.folder)
    if plan.urls:
        return [
            CallosumClient(url, deadline=plan.deadline, cafile=plan.cafile or None, state=plan.spool or None)
            for url in plan.urls
        ]
    settings = Settings(state=folder, store=plan.store, rules=folder / "rules.json", lease_ttl=plan.ttl)
    until = time.monotonic() + 30
    while True:
        try:
            store = _store(plan, settings)
            return [
                LocalGate(settings=settings, store=store, sleep=partial(_doze, getattr(store, "pause", time.sleep)))
            ]
        except StoreUnavailable:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def _doze(pause: Callable[[float], None], seconds: float) -> None:
    """Pause as a gate does whose call waits: by then the call is in the queue."""
    in_line = getattr(_waiting, "in_line", None)
    if in_line is not None:
        _waiting.in_line = None
        in_line()
    pause(seconds)


def _store(plan: Plan, settings: Settings) -> Store:
    if not plan.broken_store:
        return open_store(settings)
    from tests.support.racing import TornStore, UnwatchedStore  # noqa: PLC0415 - the tests' negative controls alone

    broken = TornStore if plan.broken_store == "torn" else UnwatchedStore
    store: Store = broken(settings.state / DATABASE)
    return store


class Sessions:
    """The sessions of one thread, one after another. A session whose outcome is not known is not continued."""

    def __init__(self, plan: Plan, number: int, gates: list[Any], recorder: Recorder) -> None:
        self._plan = plan
        self._folder = Path(plan.folder)
        self._number = number
        self._gates = gates
        self._at = number % len(gates)
        self._recorder = recorder
        self._random = random.Random(f"{plan.seed}/{plan.name}/{number}")
        self._places = PLACES[: plan.places]
        self._all = (*self._places, *sorted({place[:-1] for place in self._places if plan.places > 1}))
        self._epochs = count()
        self._calls = count()
        self.who = self._next()

    def _next(self) -> str:
        return f"{self._plan.name}:{self._number}.{next(self._epochs)}"

    def run(self) -> None:
        stop = self._folder / STOP
        try:
            while not stop.exists():
                self._act()
                time.sleep(self._random.uniform(0, self._plan.apart))
        except Exception:  # noqa: BLE001 - whatever it is, it is a finding
            self._tell("note", "crash", "", text=traceback.format_exc())

    def _act(self) -> None:
        kinds = self._plan.kinds
        (kind,) = self._random.choices([*kinds], [*kinds.values()])
        if kind == "hold":
            self._call("hold", 4, self._keys())
        elif kind == "set":
            self._call("hold", 4, self._several(), wait=self._random.choice((0, 0, 0.3)))
        elif kind == "fresh":
            tree = f"file:/f/{int(time.monotonic() / _FRESH)}/"
            self._call("hold", 4, (tree + self._random.choice(("", "x", "y")),))
        elif kind == "lock":
            self._lock(self._random.choice(self._all))
        elif kind == "wait":
            self._call("hold", 4, self._keys(), wait=self._random.choice((0.1, 0.3, 1.0)))
        elif kind == "advise":
            self._call("advise", 3, self._keys())
        else:
            self._call("note", 1, (self._random.choice(self._places),))

    def _keys(self) -> tuple[str, ...]:
        chance = self._random.random()
        if chance < 0.6:
            return (self._random.choice(self._places),)
        return self._several() if chance > 0.75 else (self._random.choice(self._all),)

    def _several(self) -> tuple[str, ...]:
        return tuple(self._random.sample(self._all, min(len(self._all), self._random.choice((2, 3, 3)))))

    # --- The two lives of a lease ---

    def _call(self, tool: str, tier: int, keys: tuple[str, ...], *, wait: float = 0.0) -> None:
        if wait:
            # The entry of a waiter names only the session, since each session waits once.
            self.who = self._next()
        op = f"{self.who}-{next(self._calls)}"
        host = self._plan.ties and not wait and self._random.random() < 0.5
        facts = {"keys": keys, "tier": tier, "ttl": self._plan.ttl, "host": host, "wait": wait}
        params = dict(zip("abc", (key.partition(":")[2] for key in keys), strict=False))
        call = Call(
            self.who, tool, {**params, "op": op}, call_id=op, dispatch=op, wait=wait,
            host=this_process() if host else None, timeout=self._plan.ttl if host else None,
        )  # fmt: skip
        _waiting.in_line = (lambda: self._tell("note", "queued", op)) if wait else None
        answer = self._again("intercept", op, lambda gate: gate.handle(call), _of_decision, **facts)
        _waiting.in_line = None
        if wait and (answer is None or not answer.ok):
            self.who = self._next()
        if answer is None or not answer.ok:
            return
        if not answer.id:  # the call ran without the gate
            self._gates[self._at].remember_late(call, "done")
            self._tell("note", "late", op)
            return
        if tier >= 4 and not self._use(op, answer.id, keys):
            return
        if self._random.random() < 0.1:
            self._again("intercept", op, lambda gate: gate.handle(call), _of_decision, **facts)
        outcome = self._random.choice(("done", "done", "done", "failed", "cancelled"))
        self._complete(op, answer.id, outcome)
        if self._random.random() < 0.1:
            self._complete(op, answer.id, self._random.choice(("done", "failed")))

    def _complete(self, op: str, id: int, outcome: str) -> None:
        self._again(
            "complete", op, lambda gate: gate.complete(self.who, id=id, outcome=outcome), _of_report,
            id=id, outcome=outcome,
        )  # fmt: skip

    def _lock(self, key: str) -> None:
        op = f"{self.who}-{next(self._calls)}"
        ttl = self._plan.ttl
        lock = wire.Lock(instance=self.who, context_key=key, tier=4, ttl=ttl)
        answer = self._again("lock", op, lambda gate: gate.handle(lock), _of_lock, keys=(key,), tier=4, ttl=ttl)
        if answer is None:
            self.who = self._next()
            return
        if not answer.ok or not self._use(op, answer.id, (key,)):
            return
        freed = wire.ReleaseAt(instance=self.who, context_key=key)
        released = self._once("release", op, lambda gate: gate.handle(freed), _of_report, id=answer.id, keys=(key,))
        if released is None:
            self.who = self._next()

    def _use(self, op: str, id: int, keys: tuple[str, ...]) -> bool:
        """Read the counters and write them back. Return False if the lease is left to run out."""
        seen: list[tuple[str, int]] = []
        for place in units(keys, PLACES):
            value = self._guarded("begin", op, id, place, lambda counter: counter.begin(id))
            if value is not None:
                seen.append((place, value))
        chance = self._random.random()
        if chance < 0.1:
            ttl = self._plan.ttl
            self._again("renew", op, lambda gate: gate.renew(self.who, id, ttl), _of_report, id=id, ttl=ttl)
        elif chance < 0.11:
            time.sleep(self._plan.ttl * 1.1)  # it continues when its lease has ended
        elif chance < 0.5:
            time.sleep(self._random.uniform(0, 0.01))
        for place, value in seen:
            self._guarded("write", op, id, place, partial(_write, id, value + 1, op))
        return self._random.random() > 0.01

    def _guarded(self, verb: Verb, op: str, id: int, place: str, work: Callable[[Counter], T]) -> T | None:
        self._tell("invoke", verb, op, keys=(place,), id=id)
        try:
            found = work(counter_of(self._folder, place))
        except Fenced as fenced:
            self._tell("answer", verb, op, id=id, text=str(fenced))
            return None
        self._tell("answer", verb, op, id=id, ok=True)
        return found

    # --- Requests ---

    def _again(
        self, verb: Verb, op: str, ask: Callable[[Any], Any], read: Callable[[Any], dict[str, Any]], **facts: Any
    ) -> Event | None:
        """Ask with the same id until there is an answer. Return None if no try gets one."""
        for _ in range(self._plan.tries):
            answer = self._once(verb, op, ask, read, **facts)
            if answer is not None:
                return answer
            if (self._folder / STOP).exists():
                return None
            time.sleep(self._random.uniform(0, 0.1))
        return None

    def _once(
        self, verb: Verb, op: str, ask: Callable[[Any], Any], read: Callable[[Any], dict[str, Any]], **facts: Any
    ) -> Event | None:
        self._tell("invoke", verb, op, **facts)
        try:
            found = ask(self._gates[self._at])
        except (StoreUnavailable, GateUnavailable) as error:
            self._at = (self._at + 1) % len(self._gates)
            self._tell("unknown", verb, op, text=f"{type(error).__name__}: {error}"[:300])
            return None
        except ConfigError as error:
            if not self._plan.broken:
                raise
            self._tell("unknown", verb, op, text=f"{type(error).__name__}: {error}"[:300])
            return None
        return self._tell("answer", verb, op, **read(found))

    def _tell(self, what: Any, verb: Verb, op: str, **facts: Any) -> Event:
        return self._recorder.tell(self.who, what, verb, op, **facts)


def _write(token: int, value: int, op: str, counter: Counter) -> bool:
    counter.write(token, value, op)
    return True


def _of_decision(decision: Any) -> dict[str, Any]:
    held = next((one.id for one in decision.conflicts if one.kind is Kind.HELD), 0)
    return {"ok": decision.proceed, "id": decision.id, "repeated": decision.repeated, "holder": held}


def _of_lock(result: Any) -> dict[str, Any]:
    return {"ok": result.acquired, "id": result.id or 0, "holder": result.conflict.id if result.conflict else 0}


def _of_report(report: Any) -> dict[str, Any]:
    return {
        "ok": report.ok,
        "id": report.id or 0,
        "state": report.state or "",
        "late": report.late,
        "text": report.note or "",
    }


def main(path: str) -> None:
    """Run a worker in its own process: ``python -m chaos.worker PLAN``."""
    run(msgspec.json.decode(Path(path).read_bytes(), type=Plan))


if __name__ == "__main__":
    main(sys.argv[1])
