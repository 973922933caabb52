"""Any sequence of calls, reports, crashes and pauses: a view with a few open actions decides as one with all of them.

The machine of ``test_machine`` with many sessions on one key, over two SQLite stores. One of them groups open actions
and shows two of each group that differs for a call; the other shows all.
"""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test
from msgspec.structs import replace

from callosum.model import Action, ActionGroup, Applied
from callosum.stores import crowd
from callosum.stores.base import Request
from callosum.stores.crowd import AskingCall, Crowd, Fetch
from callosum.stores.sqlite import SqliteStore
from tests.property.test_machine import Gates, sequences
from tests.support.world import World

left_out = 0
"""How often a view did not show all."""


class FullViewStore(SqliteStore):
    """A store whose views show all open actions."""

    def transact(self, requests: Sequence[Request]) -> list[Applied | Exception]:
        return super().transact([(replace(scope, asks=None), step) for scope, step in requests])

    def attempt(self, requests: Sequence[Request]) -> tuple[list[Applied | Exception], int] | None:
        return super().attempt([(replace(scope, asks=None), step) for scope, step in requests])


class WatchedCrowd(Crowd):
    """Notes that it left something out."""

    def view(
        self, asker: AskingCall, live: Sequence[int], renewed: int, fetch: Fetch
    ) -> tuple[list[Action], tuple[ActionGroup, ...]]:
        global left_out  # noqa: PLW0603 - hypothesis makes the machines
        found = super().view(asker, live, renewed, fetch)
        left_out += bool(found[1])
        return found


class CrowdedGates(Gates):
    """Many sessions that use one key."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(crowd, "LATEST", 1)
        self.patch.setattr(crowd, "Crowd", WatchedCrowd)
        self.model.gate.close()
        self.full = Path(tempfile.mkdtemp(prefix="callosum-"))
        living = self.model.living
        self.model = World(
            self.folder,
            lambda clock, probe: FullViewStore(self.full / "gate.db", clock=clock, probe=probe),
            clock=self.clock,
        )
        self.real.living = self.model.living = living

    def teardown(self) -> None:
        self.patch.undo()
        self.model.gate.close()
        super().teardown()
        shutil.rmtree(self.full)

    @rule(who=st.integers(0, 30), verb=st.sampled_from(["act3", "send3", "join3", "add3"]), run=st.booleans())
    def three_more_open_one(self, who: int, verb: str, run: bool) -> None:
        """Three sessions, or ``mira`` and two others."""
        for number in range(3):
            name = "mira" if run and not number else f"x{who}-{number}"
            text = f"t {who * 7919 + number}"
            self.intercept(self.call(name, verb, "plan", text, run="r" if number else None))


def test_a_view_that_shows_few_open_actions_decides_as_one_that_shows_all() -> None:
    """Answers, journal and open actions are the same after each step."""
    before = left_out
    run_state_machine_as_test(CrowdedGates, settings=sequences(24))
    assert left_out > before + 30
