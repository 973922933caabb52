"""A person's note reaches the agent."""

from pathlib import Path

import pytest

from callosum.model import Verdict
from callosum.testing import ManualClock
from callosum.testing.script import StoreScript
from tests.support.world import World, gate_time


@pytest.fixture
def world(tmp_path: Path, script: StoreScript, clock: ManualClock) -> World:
    return World(tmp_path, lambda _clock, _probe: script.store, clock=clock)


def test_refused_session_reads_the_note_of_the_person(world: World) -> None:
    with gate_time(world.clock):
        asked = world.ask("mira", "asked", "plan")
        assert asked.verdict is Verdict.ASK
        assert world.gate.deny(asked.id, note="use the sandbox account").ok
        world.clock.advance(5)
        assert 'They say: "use the sandbox account".' in (world.ask("mira", "asked", "plan").warning or "")
        assert "They say" not in (world.ask("doug", "asked", "plan").warning or ""), (
            "only the refused session reads the note"
        )
