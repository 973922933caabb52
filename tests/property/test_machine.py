"""Any sequence of calls, reports, crashes and pauses: SQLite gives the same answers as the model in memory.

Two gates share one clock and one set of host processes, one gate over each store. Every step is made on both, and their
answers must be equal. ``CALLOSUM_EXAMPLES=2000`` tries that many longer sequences, different ones every time.
"""

import os
import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from callosum.model import SECOND, Action, Commits, Decision, Entry, Event, Host, Report, State
from callosum.stores.base import Clock, Probe, Store
from callosum.stores.sqlite import SqliteStore
from callosum.stores.sqlite.connection import SqliteConnections
from callosum.testing import ManualClock
from callosum.testing.clock import START
from tests.support.world import Call, World, gate_time

SESSIONS = st.sampled_from(["mira", "doug", "anna", "kim"])
ON = st.sampled_from(["plan", "list"])
PATHS = st.sampled_from(["/r/", "/r/a", "/r/b/", "/r/b/c"])
TOOLS = st.sampled_from(
    ["look", "note", "sure", "asked", "soft"]
    + [f"{verb}{tier}" for verb in ("act", "send", "add", "post", "join", "skip") for tier in (1, 2, 3, 4)]
)
TREE_TOOLS = st.sampled_from(["see", "tree1", "tree2", "tree3", "tree4", "now3", "now4"])
TEXTS = st.sampled_from(
    ["the numbers of this quarter are attached, look before noon", "lunch moved into the garden", "ok"]
)
OUTCOMES = st.sampled_from(["done", "done", "failed", "cancelled", "unknown"])
SECONDS = st.sampled_from([0.0, 0.3, 1.5, 30.0, 119.0, 301.0, 700.0, 3700.0, 90_000.0, -50.0])


def comparable_decision(decision: Decision) -> Any:
    """What both must say alike. A gate numbers its own entries, so ids are compared as they were given."""
    return (
        decision.proceed,
        decision.verdict,
        decision.tier,
        decision.context_keys,
        decision.id,
        decision.repeated,
        decision.observed,
        decision.lease is not None,
        decision.conflict_count,
        sorted((c.kind, c.instance, c.key, c.id, c.state, c.own, c.decided, c.until) for c in decision.conflicts),
        decision.params,
    )


def comparable_report(report: Report) -> Any:
    return (report.ok, report.id, report.state, report.late, report.lease)


def line(entry: Entry) -> Any:
    """What both journals say alike. Leases that run out together may be noticed in any order."""
    if entry.event is Event.LAPSE:
        return entry.seq, entry.event
    return entry.seq, entry.event, entry.session, entry.action, entry.verdict, entry.outcome


def lapses(entries: list[Entry]) -> list[int]:
    return sorted(entry.action for entry in entries if entry.event is Event.LAPSE)


def _commitments(keys: list[str] | None, world: World) -> list[Action]:
    return world.store.commitments("default", keys)


def within_a_day(gates: "Gates") -> bool:
    """Return whether the action is within a day: a report without an id finds only such actions."""
    return gates.clock.now - START < 80_000 * SECOND


class Gates(RuleBasedStateMachine):
    """``opened`` are decisions whose actions may still be reported, as (session, id)."""

    opened = Bundle("opened")
    asked = Bundle("asked")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="callosum-"))
        self.clock = ManualClock()
        self.model = World(self.folder, clock=self.clock)
        self.real = self.world()
        self.time = gate_time(self.clock)
        self.time.__enter__()
        self.tokens: dict[str, int] = {}
        self.entries = 0
        self.calls = 0
        self.pids = 0

    def world(self) -> World:
        world = World(self.folder, self.store, clock=self.clock)
        world.living = self.model.living
        return world

    def store(self, clock: Clock, probe: Probe) -> Store:
        """Open the store that is compared with the model, and what another process has of it: ``others``."""
        self.others: Any = SqliteConnections(self.folder / "gate.db")
        return SqliteStore(self.folder / "gate.db", clock=clock, probe=probe)

    def teardown(self) -> None:
        self.time.__exit__(None, None, None)
        assert not [p for p in self.real.store.check().problems if "ahead" not in p]
        self.real.gate.close()
        self.drop()

    def drop(self) -> None:
        self.others.close()
        shutil.rmtree(self.folder)

    def both(self, act: Any, look: Any) -> Any:
        """Do the same on both and compare the answers."""
        now = self.clock.now
        mine = act(self.model)
        after = self.clock.now
        self.clock.now = now
        theirs = act(self.real)
        assert look(theirs) == look(mine), f"SQLite: {theirs}\nmemory: {mine}"
        assert self.clock.now == after
        return theirs

    # --- calls -----------------------------------------------------------------------------------

    def intercept(self, call: Call) -> Any:
        decision = self.both(lambda world: world.gate.intercept(call), comparable_decision)
        self.token(decision)
        if decision.proceed and not decision.repeated:
            return multiple((call.instance, decision.id))
        return multiple()

    def token(self, decision: Decision) -> None:
        """Tokens grow."""
        if decision.lease is not None and not decision.repeated:
            for key in decision.context_keys:
                assert decision.lease.token > self.tokens.get(key, 0)
                self.tokens[key] = decision.lease.token

    def call(self, who: str, tool: str, on: str, text: str, **more: Any) -> Call:
        self.calls += 1
        more.setdefault("call_id", f"c{self.calls}")
        also = more.pop("also", None)
        params = {"on": on, "text": text, **({"also": also} if also else {})}
        return Call(who, tool, params, **more)

    @rule(target=opened, who=SESSIONS, tool=TOOLS, on=ON, text=TEXTS, pause=st.booleans())
    def ask(self, who: str, tool: str, on: str, text: str, pause: bool) -> Any:
        return self.intercept(self.call(who, tool, on, text, pause=pause))

    @rule(target=opened, who=SESSIONS, tool=TOOLS, text=TEXTS, number=st.integers(0, 2))
    def ask_on_both_keys(self, who: str, tool: str, text: str, number: int) -> Any:
        return self.intercept(self.call(who, tool, "plan", text, also="list", call_id=f"again{number}"))

    @rule(target=opened, who=SESSIONS, tool=TREE_TOOLS, on=PATHS, text=TEXTS, pause=st.booleans())
    def ask_on_a_tree(self, who: str, tool: str, on: str, text: str, pause: bool) -> Any:
        return self.intercept(self.call(who, tool, on, text, pause=pause))

    @rule(
        target=opened,
        who=SESSIONS,
        tool=st.sampled_from(["act1", "act3", "act4", "send3"]),
        on=ON,
        text=TEXTS,
        pause=st.booleans(),
        side=st.sampled_from(["accept", "decline"]),
        days=st.sampled_from([None, 1, 60]),
    )
    def commit(self, who: str, tool: str, on: str, text: str, pause: bool, side: str, days: int | None) -> Any:
        until = self.clock.now / SECOND + days * 86_400 if days else None
        return self.intercept(self.call(who, tool, on, text, pause=pause, commits=Commits(side, until=until)))

    @rule(who=SESSIONS)
    def end_session(self, who: str) -> None:
        self.both(lambda world: world.gate.heard(who, "SessionEnd", {}), lambda _: None)

    @rule(on=ON)
    def list_commitments(self, on: str) -> None:
        for keys in (None, [f"doc:{on}"]):
            self.both(partial(_commitments, keys), lambda found: [(one.id, one.content.commitment) for one in found])

    @rule(target=opened, who=SESSIONS, tier=st.integers(1, 4), text=TEXTS)
    def ask_without_a_key(self, who: str, tier: int, text: str) -> Any:
        self.calls += 1
        return self.intercept(Call(who, f"free{tier}", {"text": text}, call_id=f"c{self.calls}"))

    @rule(
        target=opened,
        who=SESSIONS,
        tool=st.sampled_from(["act4", "send3"]),
        on=ON,
        text=TEXTS,
        run=st.sampled_from(["1", "2"]),
    )
    def ask_in_a_run_of_a_process(self, who: str, tool: str, on: str, text: str, run: str) -> Any:
        self.pids += 1
        self.model.living[self.pids] = True
        return self.intercept(self.call(who, tool, on, text, run=run, host=Host(self.pids, 1.0, "here"), timeout=900))

    @rule(target=opened, on=ON, text=TEXTS, tool=TOOLS)
    def ask_as_a_child_and_as_a_successor(self, on: str, text: str, tool: str) -> Any:
        self.intercept(self.call("child", tool, on, text, parent="mira"))
        return self.intercept(self.call("next", tool, on, text, continues="doug"))

    @rule(target=opened, who=SESSIONS, on=ON, text=TEXTS)
    def wait_for_a_turn(self, who: str, on: str, text: str) -> Any:
        return self.intercept(self.call(who, "act4", on, text, wait=2))

    # --- outcomes --------------------------------------------------------------------------------

    @rule(action=consumes(opened), outcome=OUTCOMES)
    def report(self, action: tuple[str, int], outcome: str) -> None:
        who, id = action
        self.both(lambda world: world.gate.complete(who, id=id, outcome=outcome), comparable_report)

    @rule(action=opened, who=SESSIONS)
    def report_twice_or_anothers(self, action: tuple[str, int], who: str) -> None:
        self.both(lambda world: world.gate.complete(who, id=action[1]), comparable_report)

    @precondition(within_a_day)
    @rule(who=SESSIONS, on=ON, outcome=OUTCOMES)
    def report_by_key(self, who: str, on: str, outcome: str) -> None:
        self.both(lambda world: world.gate.complete(who, context_key=f"doc:{on}", outcome=outcome), comparable_report)

    @precondition(within_a_day)
    @rule(who=SESSIONS)
    def report_without_a_key(self, who: str) -> None:
        self.both(lambda world: world.gate.complete(who), comparable_report)

    @precondition(within_a_day)
    @rule(who=SESSIONS, tool=TOOLS, on=ON, text=TEXTS)
    def report_by_tool_and_params(self, who: str, tool: str, on: str, text: str) -> None:
        self.both(lambda world: world.gate.complete(who, tool=tool, params={"on": on, "text": text}), comparable_report)

    @rule(action=opened, happened=st.booleans())
    def resolve(self, action: tuple[str, int], happened: bool) -> None:
        self.both(lambda world: world.gate.resolve(action[1], happened=happened), comparable_report)

    @rule(action=opened, ttl=st.sampled_from([10.0, 300.0]))
    def renew(self, action: tuple[str, int], ttl: float) -> None:
        who, id = action
        self.both(lambda world: world.gate.renew(who, id, ttl), comparable_report)

    # --- locks, people, time -----------------------------------------------------------------------

    @rule(
        who=SESSIONS,
        key=st.sampled_from(["doc:plan", "file:/r/", "file:/r/a"]),
        tier=st.integers(3, 4),
        ttl=st.sampled_from([5.0, 300.0]),
    )
    def lock(self, who: str, key: str, tier: int, ttl: float) -> None:
        self.both(
            lambda world: world.gate.lock(who, key, tier, ttl),
            lambda r: (r.acquired, r.id, r.lease, r.conflict is None),
        )

    @rule(who=SESSIONS, key=st.sampled_from(["doc:plan", "doc:list", "file:/r/", "file:/r/a"]))
    def release(self, who: str, key: str) -> None:
        self.both(lambda world: world.gate.release(who, key), lambda r: (r.ok, r.state))

    @rule(agrees=st.booleans())
    def answer_a_question(self, agrees: bool) -> None:
        refused = [e.seq for e in self.model.gate.entries(newest=True, limit=8) if e.verdict in ("ask", "block")]
        if refused:
            id = refused[-1]
            self.both(lambda world: world.gate.approve(id) if agrees else world.gate.deny(id), comparable_report)

    @rule(seconds=SECONDS)
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule()
    def a_host_dies(self) -> None:
        for pid, alive in self.model.living.items():
            if alive:
                self.model.living[pid] = False
                return

    @rule()
    def reopen(self) -> None:
        """A new process finds all that an old one left."""
        self.real.store.close()

    @rule()
    def turn(self) -> None:
        """Continue in another process, with a connection that has not seen the latest actions of the first."""
        store = self.real.store
        assert isinstance(store, SqliteStore)
        engine = store._engine
        engine.connections, self.others = self.others, engine.connections

    @rule()
    def maintain(self) -> None:
        for world in (self.model, self.real):
            world.store.maintain(self.clock.now - 8 * 86_400 * 1_000_000)

    @initialize()
    def start(self) -> None:
        """Nothing is there."""

    # --- what always holds -------------------------------------------------------------------------

    @invariant()
    def the_journal_grows_and_is_the_same(self) -> None:
        mine, theirs = (world.gate.entries(limit=10_000) for world in (self.model, self.real))
        assert [line(entry) for entry in theirs] == [line(entry) for entry in mine]
        assert lapses(theirs) == lapses(mine)
        assert len(theirs) >= self.entries
        self.entries = len(theirs)

    @invariant()
    def the_live_actions_are_the_same(self) -> None:
        states = (State.OPEN, State.QUEUED, State.ASKED, State.UNKNOWN)
        mine, theirs = (
            # an action without a key and of a low tier concerns no session
            [(a.id, a.state, a.session, a.expires, a.approved) for a in world.store.live(None, states) if a.keys]
            for world in (self.model, self.real)
        )
        assert theirs == mine

    @invariant()
    def at_most_one_hard_holder(self) -> None:
        """No two sessions hold a key by tier 4 or by a lock, unless a person or a rule let one in."""
        now = max([self.clock.now, *(e.seq + 1 for e in self.model.gate.entries(newest=True, limit=1))])
        held: dict[str, set[str]] = {}
        for action in self.real.store.live(None, [State.OPEN]):
            dead = action.alive is False
            until = max(action.expires, action.limit) if action.alive else action.expires
            if dead or now >= until or not (action.tier == 4 or action.lock) or action.verdict == "warn":
                continue
            for key in action.keys:
                if key.mode == "write":
                    held.setdefault(key.name, set()).add(action.session)
        family = {"mira", "child"}
        assert all(len(who) <= 1 or who <= family for who in held.values()), held


DEEP = "CALLOSUM_EXAMPLES" in os.environ
"""How many sequences are tried can be said; by default they are the same few every time."""


def sequences(count: int) -> settings:
    """Return the settings that run a machine over ``count`` sequences, unless the environment sets a number."""
    return settings(
        # Shrinking a sequence takes minutes; the seed repeats it: shrink by hand, or with CALLOSUM_SHRINK=1.
        phases=tuple(Phase) if os.environ.get("CALLOSUM_SHRINK") else (Phase.explicit, Phase.generate),
        max_examples=int(os.environ.get("CALLOSUM_EXAMPLES", count)),
        stateful_step_count=60 if DEEP else 30,
        derandomize=not DEEP,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )


TestGates = Gates.TestCase
TestGates.settings = sequences(60)
