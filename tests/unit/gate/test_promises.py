"""What the gate ensures independently of the policy: its checks, what is synced and kept, one search for secrets."""

import sys
from collections.abc import Generator
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import pytest

from callosum import Call, LocalGate, wire
from callosum.gate.check import without_secrets
from callosum.gate.effects import Read
from callosum.model import Scope, Worktree
from callosum.redact import SecretDigests
from callosum.redact.redactor import Redactor
from callosum.settings import Settings
from callosum.wire import LateCall
from tests.support.world import World

ON = "plan"
SECRETS = {"password": "hunter2", "text": "the token is ghp_0123456789abcdefghij0123456789abcdef"}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def asked_of_the_store(effects: Generator[Any, Any, Any]) -> Scope:
    """Return the scope of the first transaction that a method of the gate requests."""
    need = effects.send(None)
    while isinstance(need, Read):
        need = effects.send(need.read())
    effects.close()
    scope, _ = need
    assert isinstance(scope, Scope)
    return scope


@pytest.mark.parametrize(("tier", "durable"), [(0, False), (1, False), (2, False), (3, True), (4, True)])
def test_decisions_of_high_tiers_are_to_be_synced(world: World, tier: int, durable: bool) -> None:
    assert asked_of_the_store(world.gate.operations.intercept(world.call("mira", f"act{tier}", ON))).durable is durable


def test_locks_and_renewals_are_to_be_synced_and_reports_are_not(world: World) -> None:
    """A power cut may lose a report. The lease then runs out, and its call is unknown."""
    opened = world.ask("mira", "act3", ON)
    operations = world.gate.operations
    assert asked_of_the_store(operations.lock(wire.Lock(instance="mira", context_key="k:1"))).durable
    assert asked_of_the_store(operations.renew(wire.Renew(instance="mira", id=opened.id))).durable
    assert not asked_of_the_store(operations.complete(wire.Complete(instance="mira", id=opened.id))).durable


def test_no_secret_of_a_result_or_of_a_late_call_is_journalled(world: World) -> None:
    opened = world.ask("mira", "act3", ON)
    assert world.gate.complete("mira", id=opened.id, result=SECRETS).ok
    call = world.call("mira", "act2", ON, params=SECRETS)
    world.gate._drive(world.gate.operations.take_in([LateCall(call=call, v=2)]))
    world.gate._drive(world.gate.operations.heard("mira", "SessionStart", SECRETS))
    _, report, late, _, heard = world.gate.entries()
    assert report.body["result"]["password"] == late.body["params"]["password"] == "[redacted]"
    for entry in (report, late, heard):
        written = str(entry.body)
        assert "the token is" in written
        assert "hunter2" not in written
        assert "ghp_" not in written


@pytest.mark.parametrize("tool", ["act0", "act2", "act4", "asked"])
def test_explain_records_nothing(world: World, tool: str) -> None:
    """It leaves no action, mark or journal entry: the call is then decided as if ``explain`` had not been called."""
    world.do("doug", "send2", ON)
    world.after(5)
    before = world.gate.entries()
    _, shown = world.gate.explain(world.call("mira", tool, ON, call_id="c", wait=5))
    assert (shown.id, shown.lease) == (0, None)
    assert world.gate.entries() == before
    assert world.gate.status().locks == world.gate.status().asked == ()
    decision = world.ask("mira", tool, ON, call_id="c")
    assert (decision.verdict, decision.conflicts, decision.repeated) == (shown.verdict, shown.conflicts, False)


CALL = Call(
    "mira", "read", {}, session="chat", run="run", call_id="one/two", cwd="/srv/site", worktree=Worktree("/srv", "/git")
)


def test_call_whose_names_hold_no_secret_is_not_copied_however_often_they_were_seen() -> None:
    digests = SecretDigests(b"")
    for _ in range(2):  # each time with strings of its own, as from the wire
        call = msgspec.json.decode(msgspec.json.encode(CALL), type=Call)
        assert without_secrets(call, digests) is call
    call = msgspec.structs.replace(CALL, run="sk-ant-api03-" + "x7Kp2Qm9Zr4Lw8Vn" * 3)
    assert "x7Kp" not in str(without_secrets(call, digests))


CALLS: dict[str, tuple[str, dict[str, str]]] = {
    "read": ("Read", {"file_path": "/srv/site/page-{n}.md"}),
    "read below the folder": ("Read", {"file_path": "page-{n}.md"}),
    "write": ("Write", {"file_path": "/srv/site/page-{n}.md", "content": "# Page {n}\n\nHello.\n"}),
    "edit": ("Edit", {"file_path": "/srv/site/page-{n}.md", "old_string": "page {n}", "new_string": "part {n}"}),
    "command": ("Bash", {"command": "ls -la src/{n}"}),
    "command with a description": ("Bash", {"command": "git log -p {n}", "description": "Read what {n} changed"}),
    "several commands": ("Bash", {"command": "cd src && kubectl apply -f deploy/{n}.yaml"}),
    "message": ("message", {"action": "send", "target": "team-{n}", "message": "Page {n} is ready."}),
    "mail": ("send_email", {"to": "ana-{n}@example.com", "subject": "Page {n}", "body": "It is ready: {n}."}),
    "long write": ("Write", {"file_path": "/srv/site/page-{n}.md", "content": "Hello {n}.\n" * 99}),
    "long edit": (
        "Edit",
        {"file_path": "/srv/site/page-{n}.md", "old_string": "a {n}\n" * 99, "new_string": "b {n}\n" * 99},
    ),
    "long mail": (
        "send_email",
        {"to": "ana-{n}@example.com", "subject": "Page {n}", "body": "It is ready: {n}. " * 99},
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_new_call_takes_one_search_for_secrets(name: str, tmp_path: Path) -> None:
    tool, params = CALLS[name]
    searches: list[int] = []

    def pair(number: int) -> int:
        """Make a call and report it; return the number of searches that both took."""
        before = len(searches)
        made = {param: text.replace("{n}", f"{number:04}") for param, text in params.items()}
        decision = gate.intercept(Call("mira", tool, made, cwd="/srv/site", call_id=f"toolu_{number}"))
        gate.complete("mira", id=decision.id, result={"ok": True})
        return len(searches) - before

    def count(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is Redactor.possible.__code__:
            searches.append(1)

    with LocalGate(settings=Settings(state=tmp_path)) as gate:
        pair(1)  # the names of the session, the tool and the params are searched once and remembered
        sys.setprofile(count)
        try:
            taken = [pair(number) for number in range(2, 6)]
        finally:
            sys.setprofile(None)
    assert taken == [1, 1, 1, 1]
