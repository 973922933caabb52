"""The embedded gate: its upkeep, and the entries it writes once an unreachable store is back."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from callosum.errors import StoreError
from callosum.gate import LocalGate
from callosum.journal import Journal
from callosum.model import Applied, Call, Event, Kind
from callosum.settings import Settings
from callosum.stores.base import Request
from callosum.stores.memory import MemoryStore
from callosum.testing import ManualClock
from callosum.testing.clock import START
from tests.support.threads import all_at_once
from tests.support.world import kinds

YEAR = 366 * 86_400.0
MAIL = {"to": "alice@example.com", "body": "the numbers of the third quarter are attached, have a look before noon"}


def test_upkeep_uses_the_time_of_the_store(tmp_path: Path) -> None:
    """This machine's clock may be far ahead of that of a database that several machines share."""
    clock = ManualClock(START - int(40 * YEAR) * 1_000_000, tick=7)
    with LocalGate(settings=Settings(state=tmp_path, journal_age=86_400), store=MemoryStore(clock=clock)) as gate:
        sent = gate.intercept(Call("doug", "send_email", MAIL))
        gate.complete("doug", id=sent.id)
        for number in range(20):
            gate.intercept(Call("doug", "look_at", {"path": f"/doc/{number}"}))
        clock.advance(7200)
        gate.upkeep()
        assert Kind.DUPLICATE in kinds(gate.intercept(Call("mira", "send_email", MAIL)))
        assert Journal(gate.store, tmp_path).segments() == []


def test_call_that_ran_without_the_store_is_journalled_once(tmp_path: Path) -> None:
    """This holds whichever thread comes first once the store is back."""
    with LocalGate(settings=Settings(state=tmp_path), store=MemoryStore()) as gate:
        for tool in ("one", "two"):
            gate.remember_late(Call("mira", tool), "done")
        calls = [Call(who, "read", {"path": f"/{who}.md"}) for who in ("anna", "doug")]
        all_at_once([partial(gate.intercept, call) for call in calls])
        late = [entry.tool for entry in gate.entries() if entry.event is Event.LATE]
        assert sorted(late) == ["one", "two"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"path": "<PosixPath>"}, {"path": Path("/a")}),  # both are the same as JSON
        ({"path": "/a", "n": 1}, {"path": "/a", "n": True}),
        ({"path": "/a", "1": "x"}, {"path": "/a", 1: "x"}),
        ({"path": "/a", "n": ["/b"]}, {"path": "/a", "n": ("/b",)}),
    ],
)
def test_a_remembered_read_stands_for_itself_alone(
    tmp_path: Path, first: dict[str, object], second: dict[str, object]
) -> None:
    """What a read was classified as is remembered, until the rules change."""
    (tmp_path / "rules.json").write_text('{"version": 2, "rules": []}')
    settings = Settings(state=tmp_path / "state", rules=tmp_path / "rules.json")
    with LocalGate(settings=settings, store=MemoryStore()) as gate:
        for params in (first, second, first):
            for cwd in ("/x", "/y"):
                call = Call("mira", "read", params, cwd=cwd)
                assert gate.explain(call)[0] == gate.rules.current().classify(call)
        assert gate.intercept(Call("mira", "read", {"path": "/a"})).tier == 0
        rule = '{"name": "mine", "tool": "read", "tier": 3}'
        (tmp_path / "rules.json").write_text(f'{{"version": 2, "rules": [{rule}]}}')
        assert gate.rules.reload()
        assert gate.intercept(Call("mira", "read", {"path": "/a"})).tier == 3


class DamagedStore(MemoryStore):
    """A store that accepts no spooled call while it is ``damaged``."""

    damaged = True

    def transact(self, requests: Sequence[Request]) -> list[Applied | Exception]:
        if self.damaged and requests[0][0].session.startswith("mira/"):
            raise StoreError("it is damaged")
        return super().transact(requests)


def test_records_that_the_store_refuses_stay_in_the_spool(tmp_path: Path) -> None:
    store = DamagedStore()
    with LocalGate(settings=Settings(state=tmp_path), store=store) as gate:
        gate.remember_late(Call("mira", "one"), "done")
        with pytest.raises(StoreError, match="it is damaged"):
            gate.intercept(Call("anna", "read", {"path": "/a.md"}))
        store.damaged = False
        gate.intercept(Call("anna", "read", {"path": "/a.md"}))
        assert [entry.tool for entry in gate.entries() if entry.event is Event.LATE] == ["one"]
