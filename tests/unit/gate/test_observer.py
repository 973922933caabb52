"""The observer receives every entry of the journal exactly as the journal holds it."""

from pathlib import Path

import msgspec
import pytest

from callosum.model import Call, Entry, Observation
from callosum.stores.sqlite import SqliteStore
from callosum.wire import LateCall
from tests.support.world import World, gate_time


@pytest.mark.parametrize("engine", ["memory", "sqlite"])
def test_observer_receives_all_that_is_journalled(tmp_path: Path, engine: str) -> None:
    make = None
    if engine == "sqlite":
        make = lambda clock, probe: SqliteStore(tmp_path / "gate.db", clock=clock, probe=probe)  # noqa: E731
    world = World(tmp_path, make)
    seen: list[Observation] = []
    world.gate.add_observer(seen.append)
    gate = world.gate
    with gate_time(world.clock):
        gate.intercept(Call("mira", "look", {"on": "plan"}, call_id="toolu_1", task_id="T", attempt=2))
        decision = world.ask("mira", "act3", "plan")
        gate.renew("mira", decision.id, 30)
        world.ask("doug", "act3", "plan")
        world.end("mira", decision, "failed", result={"error": "no"})
        gate.lock("mira", "doc:lock", ttl=1)
        world.after(5)
        gate.lock("doug", "doc:lock", ttl=60)
        gate.release("doug", "doc:lock")
        asked = world.ask("mira", "asked", "plan")
        gate.approve(asked.id, by="anna", channel="console")
        world.ask("mira", "asked", "plan")
        gate.deny(world.ask("mira", "asked", "other").id, by="anna", channel="cli")
        lost = world.ask("doug", "act3", "lost")
        world.after(3600)
        assert gate.sweep() > 0
        assert gate.sweep() == 0, "what was settled stays so"
        gate.resolve(lost.id, happened=True, by="anna", note="it is there")
        gate._drive(gate.operations.take_in([LateCall(call=Call("mira", "look", {"on": "x"}), v=2)]))
        waited = world.ask("mira", "act4", "held")
        gate._sleep = world.after
        assert not gate.intercept(Call("doug", "act4", {"on": "held"}, wait=1)).proceed
        world.end("mira", waited, "done")
    told = [_plain(entry) for one in seen for entry in one.entries]
    stored = [_plain(entry) for entry in world.store.entries(limit=1000)]
    assert told == stored
    assert stored[0].body["callId"] == "toolu_1"
    assert (stored[0].body["taskId"], stored[0].body["attempt"]) == ("T", 2)
    events = {entry.event for entry in stored}
    assert {"intercept", "complete", "lock", "release", "renew", "lapse", "approve", "deny", "late", "queue"} <= events
    gate.close()


def _plain(entry: Entry) -> Entry:
    """Return an entry as it is after JSON; its body may hold structs before."""
    return msgspec.json.decode(msgspec.json.encode(entry), type=Entry)


def test_observer_that_raises_harms_no_call(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    world = World(tmp_path)

    def broken(seen: Observation) -> None:
        raise ValueError

    world.gate.add_observer(broken)
    assert world.gate.intercept(Call("mira", "act3", {"on": "plan"})).proceed
    assert "the observer failed on intercept" in caplog.text
