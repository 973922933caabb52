"""Test two OpenClaw sessions that write one file: the gate merges it, notifies both, and a person undoes it."""

import pytest

from tests.acceptance.command import at_terminal
from tests.e2e.openclaw.house import INSTANCE, Fake, Gateway, OpenClawHome, call, play

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

TEXT = "".join(
    f"line {number} of a plan that is longer than a result of any other tool may be\n" for number in range(60)
)
PLAN = "plan.md"


def newest_result(model: Fake, marker: str) -> str:
    """Return everything that the model saw in the turn of the message with this marker."""
    requests = [one for one in model.seen() if marker in one["text"]]
    return "\n".join(text for one in requests for text in (one["text"], one["system"], *one["results"]))


def turn(house: OpenClawHome, session: str, marker: str, *calls: dict[str, object]) -> None:
    out, _ = (running := house.turn(session, play(*[[one] for one in calls], say=marker))).communicate(timeout=300)
    assert running.returncode == 0, out[-2000:]


def test_two_writers_of_one_file_are_merged_notified_and_undone(
    house: OpenClawHome, gateway: Gateway, model: Fake
) -> None:
    file = house.workspace / PLAN
    file.write_text(TEXT)
    betas, alphas = TEXT.replace("line 2 ", "beta's line "), TEXT.replace("line 50 ", "alpha's line ")
    turn(house, "one", "alpha-reads", call("read", path=PLAN))
    turn(house, "two", "beta-writes", call("read", path=PLAN), call("write", path=PLAN, content=betas))
    assert file.read_text() == betas
    turn(house, "one", "alpha-writes", call("write", path=PLAN, content=alphas), call("exec", command="echo on"))
    both = betas.replace("line 50 ", "alpha's line ")
    assert file.read_text() == both
    told = newest_result(model, "alpha-writes")
    assert f"Changes that {INSTANCE}/agent:main:two made there" in told
    assert "+beta's line" in told
    turn(house, "two", "beta-hears", call("exec", command="echo on"))
    assert f"{INSTANCE}/agent:main:one wrote the file merged with this session's change" in newest_result(
        model, "beta-hears"
    )
    (merged,) = house.gate("merges")["merges"]
    assert (merged["session"], merged["lost"]) == (f"{INSTANCE}/agent:main:one", "")
    assert at_terminal(house.state, "merges", "undo", str(merged["id"])).code == 0
    assert file.read_text() == betas
    assert at_terminal(house.state, "merges", "undo", str(merged["id"]), "--to", "proposal").code == 0
    assert file.read_text() == alphas
