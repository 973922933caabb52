"""Test that a real OpenClaw emits the corpus events that the docs name for its plugin, and no others."""

import pytest

from tests.e2e.home import PATIENCE, until
from tests.e2e.openclaw.house import INSTANCE, Fake, Gateway, OpenClawHome, call, play
from tests.e2e.told import claimed, come, logged_events

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


def test_every_event_that_the_docs_name_comes_out_of_real_sessions(
    house: OpenClawHome, gateway: Gateway, telegram: Fake
) -> None:
    until(lambda: any(one["method"] == "setMyCommands" for one in telegram.seen()), "the channel is ready")
    works = (
        [call("exec", command="echo a")],
        [call("read", path="nowhere.txt")],
        [call("exec", command="echo b", background=True)],
    )
    house.turn("alpha", play(*works, say="alpha-turn")).communicate(timeout=300)
    house.turn("beta", "FAIL:400").communicate(timeout=300)
    for number in range(3):
        telegram.push(f"Tell me more. SAY:This is part {number}, and it is long. {'So it goes. ' * 200}")
        until(lambda: f"part {number}," in str(telegram.seen()), "the reply")  # noqa: B023 - asked at once
    telegram.push("/compact")

    column = claimed("OpenClaw")
    come(house.state, {name for name, cell in column.items() if cell.startswith("plugin")}, PATIENCE)
    for name, cell in column.items():
        if cell.startswith("no"):
            assert logged_events(house.state, name) == [], name
    (failed, *_) = (payload for _, payload in logged_events(house.state, "llm.error"))
    assert failed["instance"] == f"{INSTANCE}/agent:main:beta"
