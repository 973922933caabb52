"""Callosum as the benchmark asks it: the rules that ship, and a real gate over a store in memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from callosum.gate import LocalGate
from callosum.model import Call, Classification, Commits, Decision, Key, Kind, Mode, overlap, sees
from callosum.rulebook import Rulebook
from callosum.rules import RuleSet
from callosum.rules.harvest import harvest
from callosum.settings import Settings
from callosum.stores.memory import MemoryStore
from callosum.testing import ManualClock

SECRET: Final = b"s" * 32
CWD: Final = "/home/dev/project"
"""The working folder, a repository, of every recorded call: the recordings do not name theirs."""

_SETTINGS: Final = Settings(state=Path("nowhere"), journal_params="none", journal_age=36500 * 86400.0)
_RULEBOOK: Final = Rulebook(None, secret=SECRET)
RULES: Final = RuleSet.parse(None, secret=SECRET)


def judge(tool: str, params: Mapping[str, Any], **more: Any) -> Classification:
    """What the shipped rules make of a call."""
    return RULES.classify(Call("judge", tool, params, cwd=CWD, **more))


def looked_at(found: Classification, tool: str, result: Any) -> Classification:
    """The same with the things that a look brought back among its keys, as the gate counts them."""
    return replace(found, keys=(*found.keys, *harvest(tool, found.keys, result))) if result else found


class Scene:
    """Sessions behind a gate of their own, with a clock that only ``after`` advances."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.gate = LocalGate(
            settings=_SETTINGS, store=MemoryStore(clock=self.clock), rules=_RULEBOOK, sleep=self.clock.sleep
        )
        self.gate.here = False  # the files of these calls exist nowhere
        self._calls = 0

    def after(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def end_session(self, instance: str, session: str) -> None:
        """Tells the gate that a session has ended, as a host does."""
        self.gate.heard(instance, "SessionEnd", {}, session=session)

    def ask(self, who: str, tool: str, params: Mapping[str, Any], **more: Any) -> Decision:
        """A call of a session; a new call id unless one is given."""
        self._calls += 1
        more.setdefault("call_id", f"call-{self._calls}")
        more.setdefault("cwd", CWD)
        if "commits" in more:
            more["commits"] = msgspec.convert(more["commits"], Commits)
        return self.gate.intercept(self.gate.located(Call(who, tool, params, **more)))

    def do(self, who: str, tool: str, params: Mapping[str, Any], result: Any = None, **more: Any) -> Decision:
        """Make a call that runs whatever its verdict is, and report it at once with its result."""
        decision = self.ask(who, tool, params, **more)
        if decision.proceed:
            self.gate.complete(who, id=decision.id, outcome="done", result=result)
        return decision


def told(decision: Decision) -> frozenset[Kind]:
    """Return the kinds of conflict in the decision; none if the call was simply allowed."""
    return frozenset(one.kind for one in decision.conflicts)


def meeting(one: Classification, other: Classification) -> tuple[Key, Key] | None:
    """The first two keys through which two calls meet in modes that disturb one another, None if they do not.

    A look at a tree does not see what is put into a thing in it, nor a facet of one; neither does the gate.
    """
    for mine in one.keys:
        for theirs in other.keys:
            if mine.mode is theirs.mode and mine.mode is not Mode.WRITE:
                continue
            if overlap(mine.name, theirs.name) and not (_unseen(mine, theirs) or _unseen(theirs, mine)):
                return mine, theirs
    return None


def _unseen(look: Key, change: Key) -> bool:
    if look.mode is not Mode.READ or look.name[-1:] != "/":
        return False
    hangs_on = change.mode is Mode.APPEND and not change.name.startswith(f"{look.name}|")
    return hangs_on or not (sees(look.name, change.name) or sees(change.name, look.name) or look.name == change.name)
