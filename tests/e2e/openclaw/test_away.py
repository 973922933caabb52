"""Test OpenClaw with the plugin while something is missing: the gate, the gateway's hooks, or the plugin's setup."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from callosum.client.local import local_client
from callosum.sockets import socket_path
from tests.e2e.home import until
from tests.e2e.openclaw.house import INSTANCE, Fake, OpenClawHome, call, gateway_of, hidden, play

MakeHouse = Callable[..., OpenClawHome]

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

CANNOT = ["false"]
"""A command that starts no gate."""


def begin_gate(house: OpenClawHome) -> int:
    """Start the gate of a home, as a person would. Return its pid."""
    where = ["--state", str(house.state), "--socket", socket_path(house.state)]
    command = [sys.executable, "-m", "callosum.cli", "serve", "--background", *where]
    subprocess.run(command, env=house.environ, check=True, timeout=120, capture_output=True)
    (pid,) = until(house.gates, "the gate says that it runs")
    return pid


def test_gate_killed_during_a_turn_does_not_block_reads(make_house: MakeHouse, model: Fake, telegram: Fake) -> None:
    house = make_house("away", telegram).gated(command=CANNOT)
    pid = begin_gate(house)
    flag = house.folder / "go-on"
    (house.workspace / "note.txt").write_text("what is written here")
    wait = call("exec", command=f"while [ ! -e {flag} ]; do sleep 0.1; done")
    send = hidden("message", action="send", channel="telegram", target="42", message="this must not go out")
    with gateway_of(house):
        turn = house.turn("away", play([wait], [call("read", path="note.txt"), send], say="away-turn"))
        until(
            lambda: [entry for entry in house.journal("away") if entry["tool"] == "exec"],
            "the first call is asked about",
        )
        os.kill(pid, signal.SIGKILL)
        until(lambda: not house.gates(), "the gate is gone")
        flag.touch()
        turn.communicate(timeout=300)
        results = next(one["results"] for one in reversed(model.seen()) if "away-turn" in one["text"])
        assert "what is written here" in results[1]
        assert "[Callosum] The gate is unreachable" in results[2]
        assert "does not run without it" in results[2]
        begin_gate(house)
        house.turn("again", play([call("read", path="note.txt")], say="again-turn")).communicate(timeout=300)
        # Calls made without the gate and the outcome of the first call reach the gate now.
        told = until(
            lambda: [entry for entry in house.journal("away") if entry["event"] in ("late", "complete")][1:],
            "it is told late",
        )
        assert {entry["tool"] for entry in house.journal("away") if entry["event"] in ("late", "complete")} >= {
            "read",
            "exec",
        }, told


def test_agent_exec_is_gated_by_the_policy_alone(make_house: MakeHouse, model: Fake) -> None:
    house = make_house("headless").gated()
    with local_client(house.state) as person:
        assert person.lock("doug", f"git:{house.workspace}", 4).acquired
    message = play(
        [call("write", path="x.txt", content="written"), call("exec", command="git push")], say="headless-turn"
    )
    house.run("agent", "exec", "--cwd", str(house.workspace), "--json", message, timeout=400)
    assert (house.workspace / "x.txt").read_text() == "written"
    results = next(one["results"] for one in reversed(model.seen()) if "headless-turn" in one["text"])
    assert re.search(r"\[Callosum\] Conflict: doug/pid-\S+ has an active action", results[1].replace("\\", ""))
    asked = [entry for entry in house.journal() if entry["event"] == "intercept"]
    assert [(entry["tool"], entry["verdict"]) for entry in asked] == [("write", "allow"), ("exec", "block")]
    assert asked[0]["keys"][0][0] == f"file:{house.workspace}/x.txt"
    assert asked[0]["session"].startswith(f"{INSTANCE}/agent:main:")


def test_silent_gateway_that_lives_is_critical(make_house: MakeHouse) -> None:
    """Yield a gateway whose plugin is switched off while it runs, and one whose plugin could not be set up."""
    quiet = make_house("quiet").gated()
    fallen = make_house("fallen").gated(state=str(quiet.state), instanceId="fallen", command=[""])
    with gateway_of(quiet) as one:
        until(lambda: quiet.logged("health.ok"), "a sign of life")
        with gateway_of(fallen) as other:
            names = {one.process.pid: f"{INSTANCE}/openclaw:", other.process.pid: "fallen/openclaw:"}
            settings = quiet.installed()
            settings["plugins"]["entries"]["callosum"]["enabled"] = False
            quiet.write(settings)
            until(lambda: "could not be set up" in other.said(), "the fallen plugin says so")
            found = until(
                lambda: {
                    event["resource"]: event
                    for event in quiet.logged("health.critical")
                    if all(
                        any(name in critical["resource"] for critical in quiet.logged("health.critical"))
                        for name in names.values()
                    )
                },
                "both are told of",
            )
            assert one.process.poll() is None
            assert other.process.poll() is None
            assert {resource.split(":")[1].split("/")[0] for resource in found} == {INSTANCE, "fallen"}
            assert all("silent for" in event["value"] for event in found.values())


def test_plugin_that_cannot_be_set_up_blocks_everything_but_reads(make_house: MakeHouse, model: Fake) -> None:
    house = make_house("broken").gated(command=[""])
    (house.workspace / "note.txt").write_text("what is written here")
    message = play([call("read", path="note.txt"), call("write", path="x.txt", content="x")], say="broken-turn")
    house.run("agent", "exec", "--cwd", str(house.workspace), "--json", message, timeout=400)
    results = next(one["results"] for one in reversed(model.seen()) if "broken-turn" in one["text"])
    assert "what is written here" in results[0]
    assert "The plugin could not be set up" in results[1]
    assert not (house.workspace / "x.txt").exists()
