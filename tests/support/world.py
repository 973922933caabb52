"""A gate over a store with a manual clock, and short methods for the calls of sessions."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import callosum.gate.local
from callosum import wire
from callosum.gate import LocalGate
from callosum.model import SECOND, Call, Decision, Host, Kind, LockResult, Outcome, Report, Verdict
from callosum.rulebook import Rulebook
from callosum.settings import Settings
from callosum.stores.base import Clock, Probe, Store
from callosum.stores.memory import MemoryStore
from callosum.stores.sqlite import SqliteStore
from callosum.testing import ManualClock

MakeStore = Callable[[Clock, Probe], Store]


def _rules() -> list[dict[str, Any]]:
    """Return the rules of the tests.

    ``act3`` writes at tier 3, ``send3`` acts again when repeated, ``add3`` appends, ``join3`` and ``skip3`` are
    contrary to each other, ``now3`` considers only the present.
    """
    rules: list[dict[str, Any]] = [
        {"tool": "look", "tier": 0, "effect": "read", "contextKey": _keys("read")},
        {"tool": "note", "tier": 1, "effect": "write", "contextKey": _keys("append"), "repeats": False},
        {"tool": "save", "tier": 1, "effect": "write", "contextKey": "file:{params.on}", "repeats": False},
        {"tool": "asked", "tier": 3, "verdict": "ask", "contextKey": _keys("write"), "repeats": False},
        {"tool": "asked-read", "tier": 3, "verdict": "ask", "effect": "read", "contextKey": _keys("read")},
        {"tool": "asked-low", "tier": 1, "verdict": "ask", "contextKey": _keys("write"), "repeats": False},
        {"tool": "sure", "tier": 2, "verdict": "confirm", "contextKey": _keys("write"), "repeats": False},
        {"tool": "shy", "tier": 1, "contextKey": _keys("write"), "repeats": False, "cells": {"held": "confirm", "unknown": "warn", "stale": "allow"}},
        {"tool": "sure-low", "tier": 1, "verdict": "confirm", "effect": "write", "repeats": False},
        {"tool": "sure4", "tier": 4, "verdict": "confirm", "contextKey": _keys("write"), "repeats": False, "cells": {"recent": "warn"}},
        {"tool": "never", "tier": 1, "verdict": "block", "contextKey": _keys("write"), "repeats": False},
        {
            "tool": "soft", "tier": 3, "contextKey": _keys("write"), "repeats": True,
            "cells": {"recent": "allow", "held": "allow", "stale": "block", "unknown": "ask"},
        },
        {"tool": "short3", "tier": 3, "contextKey": _keys("write"), "recentWindowMs": 60_000, "repeats": False},
        {"tool": "long3", "tier": 3, "contextKey": _keys("write"), "recentWindowMs": 7_200_000, "repeats": False},
    ]  # fmt: skip
    for tier in range(5):
        rules += [
            {"tool": f"act{tier}", "tier": tier, "effect": "write", "contextKey": _keys("write"), "repeats": False},
            {"tool": f"send{tier}", "tier": tier, "effect": "write", "contextKey": _keys("write"), "repeats": True},
            {"tool": f"add{tier}", "tier": tier, "effect": "write", "contextKey": _keys("append"), "repeats": False},
            {"tool": f"post{tier}", "tier": tier, "effect": "write", "contextKey": _keys("append"), "repeats": True},
            {"tool": f"tree{tier}", "tier": tier, "effect": "write", "contextKey": "file:{params.on}", "repeats": False},
            {"tool": f"free{tier}", "tier": tier, "effect": "write", "repeats": True},
            {"tool": f"join{tier}", "tier": tier, "effect": "write", "contextKey": _keys("write"), "stance": "+attend", "repeats": True},
            {"tool": f"skip{tier}", "tier": tier, "effect": "write", "contextKey": _keys("write"), "stance": "-attend", "repeats": True},
            {"tool": f"now{tier}", "tier": tier, "effect": "write", "contextKey": "file:{params.on}", "recentWindowMs": 0, "repeats": False},
        ]  # fmt: skip
    rules.append({"tool": "see", "tier": 0, "effect": "read", "contextKey": "file:{params.on}"})
    return rules


def _keys(mode: str) -> list[dict[str, str]]:
    return [{"key": f"doc:{{params.{name}}}", "mode": mode} for name in ("on", "also")]


RULES = json.dumps({"rules": _rules()})


def rules_in(folder: Path) -> dict[str, str]:
    """Write ``RULES`` to a file in the folder; return the environment that has a gate use them."""
    (folder / "rules.json").write_text(RULES)
    return {"CALLOSUM_RULES": str(folder / "rules.json")}


class InstanceGate(LocalGate):
    """An embedded gate whose callers act as their instances if they name no session, as on the wire."""

    def intercept(self, call: Call, *, as_it_is: bool = True) -> Decision:
        return super().intercept(call, as_it_is=True)

    def complete(self, instance: str, **more: Any) -> Report:
        return self.handle(wire.Complete(instance=instance, **more))

    def lock(self, instance: str, context_key: str, tier: int = 3, ttl: float | None = None, **more: Any) -> LockResult:
        return self.handle(wire.Lock(instance=instance, context_key=context_key, tier=tier, ttl=ttl, **more))

    def release(self, instance: str, context_key: str, **more: Any) -> Report:
        return self.handle(wire.ReleaseAt(instance=instance, context_key=context_key, **more))


class World:
    """Sessions such as ``mira``, one gate, and a clock that moves only when a test advances it."""

    def __init__(
        self, folder: Path, make_store: MakeStore | None = None, *, clock: ManualClock | None = None, **settings: Any
    ) -> None:
        self.clock = clock or ManualClock()
        self.living: dict[int, bool] = {}
        rules = folder / "rules.json"
        if not rules.exists():
            rules.write_text(RULES)
        self.store = (make_store or _memory)(self.clock, lambda host: self.living.get(host.pid))
        self.gate = InstanceGate(
            settings=Settings(state=folder, rules=rules, **settings),
            store=self.store,
            rules=Rulebook(rules, secret=b"s" * 32),
            sleep=self.sleep,
        )
        self.each_sleep: Callable[[], None] = lambda: None
        self._calls = 0

    def sleep(self, seconds: float) -> None:
        """Advance the clock instead of sleeping; other sessions may act."""
        self.clock.sleep(seconds)
        self.each_sleep()

    def after(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def call(self, who: str, tool: str, on: str | None = None, **more: Any) -> Call:
        params = more.pop("params", {})
        if on is not None:
            params = {"on": on, **params}
        if "call_id" not in more:
            self._calls += 1
            more["call_id"] = f"call-{self._calls}"
        return Call(who, tool, params, **more)

    def ask(self, who: str, tool: str, on: str | None = None, **more: Any) -> Decision:
        """Make one call of a session, a moment after the previous one; with a new call id unless one is given."""
        return self.gate.intercept(self.call(who, tool, on, **more))

    def end(self, who: str, decision: Decision, outcome: str = "done", **more: Any) -> Report:
        return self.gate.complete(who, id=decision.id, outcome=outcome, **more)

    def do(self, who: str, tool: str, on: str | None = None, **more: Any) -> Decision:
        """Make a call that runs and is reported at once."""
        decision = self.ask(who, tool, on, **more)
        assert decision.proceed, decision
        assert self.end(who, decision).ok
        return decision


def _memory(clock: Clock, probe: Probe) -> Store:
    return MemoryStore(clock=clock, probe=probe)


@contextmanager
def gate_time(clock: ManualClock) -> Iterator[None]:
    """Set the gate's own clock to the manual clock too, for waits and ``status``."""
    shim = SimpleNamespace(
        monotonic=lambda: clock.now / SECOND,
        perf_counter=lambda: clock.now / SECOND,
        time=lambda: clock.now / SECOND,
        time_ns=lambda: clock.now * 1000,
        sleep=clock.sleep,
    )
    with mock.patch.object(callosum.gate.local, "time", shim):
        yield


@contextmanager
def world_on(engine: str, folder: Path) -> Iterator[World]:
    """Yield a world over a store in ``memory`` or an ``sqlite`` file, whose gate has the manual clock."""
    on_file: MakeStore = lambda clock, probe: SqliteStore(folder / "gate.db", clock=clock, probe=probe)  # noqa: E731
    world = World(folder, on_file if engine == "sqlite" else None)
    with gate_time(world.clock):
        yield world
    world.gate.close()


def kinds(decision: Decision) -> set[Kind]:
    return {conflict.kind for conflict in decision.conflicts}


__all__ = [
    "RULES", "Call", "Decision", "Host", "Kind", "MakeStore", "Outcome", "Verdict", "World", "gate_time", "kinds",
    "rules_in", "world_on",
]  # fmt: skip
