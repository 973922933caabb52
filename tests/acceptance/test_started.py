"""Every command started as its users start it: it imports what it needs and does its work.

The results of the commands are tested in forked processes, where everything is imported already
(``tests.support.forking``).
"""

import json
from pathlib import Path

import pytest

from callosum.cli.app import app_for
from callosum.gate import LocalGate
from callosum.model import Call
from tests.acceptance.command import STARTED, at_terminal, environment, run
from tests.support.mcpwrap import SERVER, Wrapped
from tests.support.serving import serving

RULES = {"rules": [{"name": "pay", "tier": 4, "tool": "pay", "contextKey": "payment:{params.to}", "verdict": "ask"}]}
PAYMENT = Call("mira", "pay", {"to": "globex", "amount": 5}, call_id="c1")
MAIL = Call("mira", "message", {"action": "send", "target": "andy", "message": "On it"}, call_id="c2")
SAYS: dict[str, tuple[str, int, str]] = {
    "status": ("", 0, "mira"),
    "leases": ("", 0, "mira"),
    "commitments": ("", 1, "No commitment."),
    "journal": ("--tier 4", 0, "payment:globex"),
    "report": ("", 0, "Of "),
    "brief": ("--instance doug", 0, "doc:plan"),
    "search": ("globex", 0, "One hit."),
    "events": ("--last 9", 0, "ask: Tier 4"),
    "explain": ("message {}", 0, "verdict"),
    "off": ("", 4, "only a person can switch the gate off"),
    "on": ("", 0, "The gate was on already."),
    "merges list": ("", 0, "Nothing was merged"),
    "merges show": ("1", 1, "no merge"),
    "merges undo": ("1", 1, "no merge"),
    "install": ("claude-code --yes", 0, "settings.json"),
    "uninstall": ("claude-code --yes", 0, "Nothing to do"),
    "hook": ("bogus", 2, "there is no host"),
    "doctor": ("", 0, "Nothing is wrong"),
    "store check": ("", 0, "sound"),
    "store migrate": ("", 0, "Nothing to do"),
    "store copy": ("sqlite:///gate.db sqlite:///copy.db", 0, "Copied and verified"),
    "token add": ("mira", 0, "cal_mira_"),
    "token list": ("", 0, "There are no tokens."),
    "token remove": ("mira", 1, "there is no token"),
    "token rotate": ("mira", 1, "there is no token"),
    "rules check": ("", 0, "1 rules of your own are sound"),
    "rules suggest": ("", 1, "Nothing to propose"),
    "rules approvals": ("", 1, "Nothing is approved beforehand."),
    "rules revoke": ("1", 4, "only a person can revoke"),
    "rules gaps": ("", 1, "calls were looked at."),
    "rules try": ("state/tiers.json", 1, "recorded calls would be judged otherwise"),
}
"""What follows each command, its exit code, and something that it says."""
AT_TERMINAL = {
    "approve": ("{call}", "Approved"), "deny": ("{call}", "Refused"), "resolve": ("{lost} --happened", "Settled"),
    "release": ("doc:plan", "Released"), "watch": ("--once", "payment:globex"),
}  # fmt: skip
"""For each command that needs a person or a terminal: its arguments, and a text of its output."""
ELSEWHERE = {
    "mcp", "stdio",  # below
    "serve", "stop",  # test_local.py
    "console",  # test_console.py
    "demo",  # test_demo.py
    "store accept", "store restore",  # test_store_changed.py
}  # fmt: skip


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Return the folder of a gate where mira has a lease and one of her calls waits for a person."""
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    (state / "tiers.json").write_text(json.dumps(RULES))
    (tmp_path / "calls.jsonl").write_text('{"tool": "read", "args": {"path": "/x"}}\n')
    with LocalGate(state) as gate:
        gate.intercept(PAYMENT)
        gate.lock("mira", "doc:plan", ttl=600)
    return state


def test_every_command_is_tested() -> None:
    app = app_for(())
    commands = {one.callback.__name__ for one in app.registered_commands if one.callback}
    for group in app.registered_groups:
        assert group.typer_instance is not None
        commands |= {
            f"{group.name} {one.name or one.callback.__name__}"
            for one in group.typer_instance.registered_commands
            if one.callback
        }
    assert commands == SAYS.keys() | AT_TERMINAL.keys() | ELSEWHERE


@pytest.mark.parametrize("name", SAYS)
def test_command_runs_with_pipes(state: Path, name: str) -> None:
    words, code, says = SAYS[name]
    done = run(state, *name.split(), *words.split(), env={"HOME": str(state.parent)}, program=STARTED)
    assert (done.returncode, says in done.stdout + done.stderr) == (code, True), done
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", AT_TERMINAL)
def test_command_runs_at_a_terminal(state: Path, name: str) -> None:
    words, says = AT_TERMINAL[name]
    with LocalGate(state) as gate:
        call, lost = (gate.intercept(one).id for one in (PAYMENT, MAIL))
        gate.complete("mira", id=lost, outcome="unknown")
    shown = at_terminal(state, name, *words.format(call=call, lost=lost).split(), program=STARTED)
    assert (shown.code, says in shown.text) == (0, True), shown


def test_stdio_command_answers(state: Path) -> None:
    asked = {"jsonrpc": "2.0", "id": 1, "method": "intercept", "params": {"instance": "mira", "tool": "read"}}
    done = run(state, "stdio", text=json.dumps(asked) + "\n", program=STARTED)
    assert (done.returncode, json.loads(done.stdout)["result"]["proceed"]) == (0, True), done


@pytest.mark.parametrize("behind", [(), ("--", *SERVER)], ids=["alone", "wrapped"])
def test_mcp_commands_answer(state: Path, behind: tuple[str, ...]) -> None:
    if behind:
        behind = (*behind, str(state.parent / "log.jsonl"))
    with serving(state) as server:
        client = Wrapped((*STARTED, "mcp", *behind), environment(state, CALLOSUM_URL=server.address))
        try:
            tools = [tool["name"] for tool in client.ask("tools/list")["tools"]]
            assert ("read_note" if behind else "take_lease") in tools
            assert client.end() == 0
        finally:
            client.close()
