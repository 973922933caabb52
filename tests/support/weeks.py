"""A journal with two weeks of history."""

from pathlib import Path

from callosum.gate import DATABASE, LocalGate
from callosum.model import SECOND, Call
from callosum.settings import load
from callosum.stores.sqlite import SqliteStore
from callosum.testing import ManualClock

DAY = 86_400


def two_weeks(state: Path) -> None:
    """Journal the actions of three sessions on one channel during the last two weeks."""
    clock = ManualClock()
    newest = SqliteStore(state / DATABASE)
    now = newest.now()
    newest.close()
    clock.now = now - 14 * DAY * SECOND
    with LocalGate(settings=load({"state": state}), store=SqliteStore(state / DATABASE, clock=clock)) as gate:
        for day in range(14):
            for instance in ("mira", "doug", "ada"):
                params = {"action": "send", "target": "#general", "message": f"news of day {day} from {instance}"}
                decision = gate.intercept(Call(instance, "message", params))
                gate.complete(instance, id=decision.id)
                clock.advance(60)
            clock.now = now - (13 - day) * DAY * SECOND
