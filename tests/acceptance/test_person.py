"""Test the proof of a person in the library: behind an agent's host, a person's actions are refused."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from callosum import Call, LocalGate
from tests.acceptance.command import environment
from tests.support.serving import until

NOTHING: Mapping[str, str] = {}
ACTS = {
    "approve": "gate.approve(ID, by='kim').ok", "deny": "gate.deny(ID, by='kim').ok",
    "observe": "gate.observe(3600, by='kim') > 0", "resolve as a person": "gate.resolve(LOST, happened=False).ok",
    "release another's lease": "gate.release('', 'payment:acme', by='kim', force=True).ok",
    "approve through an async gate": "asyncio.run(AsyncGate(gate).approve(ID, by='kim')).ok",
    "accept a changed store": "gate.store.accept() == ''",
    "get an approver's token": "bool(Tokens(Path(sys.argv[1]) / 'tokens.json').add('kim', role=Role.APPROVER))",
}  # fmt: skip
SCRIPT = """
import asyncio, sys
from pathlib import Path
from callosum import AsyncGate, LocalGate, NotAPerson
from callosum.server.tokens import Role, Tokens
with LocalGate(sys.argv[1]) as gate:
    ID, LOST, HELD = map(int, sys.argv[2:5])
    try:
        print({act})
    except NotAPerson as refusal:
        print(refusal)
"""


@pytest.fixture
def ids(gate: LocalGate) -> tuple[str, ...]:
    """Return a blocked call, one with an unknown outcome, and the lease that blocks."""
    reply = {"action": "send", "target": "andy", "replyTo": "m1", "message": "On it"}
    lost = gate.intercept(Call("mira", "message", reply)).id
    gate.complete("mira", id=lost, outcome="unknown")
    held = gate.lock("mira", "payment:acme", tier=4).id
    assert held is not None
    blocked = gate.intercept(Call("doug", "pay", {"to": "acme", "amount": 5}))
    assert not blocked.proceed
    return str(blocked.id), str(lost), str(held)


def answer_in_process(
    state: Path, ids: tuple[str, ...], act: str, *, host: Path | None = None, environ: Mapping[str, str] = NOTHING
) -> str:
    """Return the library's answer to an operation in a new process, below ``host`` if it is given."""
    words = [sys.executable, "-c", SCRIPT.replace("{act}", act), str(state), *ids]
    command = words if host is None else [str(host), "-c", '"$@"; exit $?', "sh", *words]
    done = subprocess.run(
        command, env=environment(state, **environ), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def claude(tmp_path: Path) -> Path:
    """Return a shell with the name of an agent's host."""
    host = tmp_path / "claude"
    host.symlink_to("/bin/sh")
    return host


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS.keys())
def test_descendant_of_a_host_is_refused_in_the_library(
    state: Path, gate: LocalGate, ids: tuple[str, ...], claude: Path, act: str
) -> None:
    before = gate.entries()
    refusal = answer_in_process(state, ids, act, host=claude)
    assert refusal.startswith("only a person can ")
    assert "this process descends from claude" in refusal
    assert gate.entries() == before
    assert not (state / "tokens.json").exists()


@pytest.mark.parametrize("variable", ["CLAUDECODE", "CODEX_SANDBOX", "GEMINI_CLI", "OPENCLAW_SESSION"])
def test_process_with_a_variable_of_a_host_is_refused_in_the_library(
    state: Path, gate: LocalGate, ids: tuple[str, ...], variable: str
) -> None:
    before = gate.entries()
    assert f"{variable} is set" in answer_in_process(state, ids, ACTS["observe"], environ={variable: "1"})
    assert gate.entries() == before


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS.keys())
def test_person_may_act_and_the_ancestry_is_journalled(
    state: Path, gate: LocalGate, ids: tuple[str, ...], act: str
) -> None:
    newest = gate.entries()[-1].seq
    if _runs_below_a_host():
        pytest.skip("an agent's host runs these tests: the control needs a process without one above it")
    assert answer_in_process(state, ids, act) == "True"
    for entry in gate.entries(after=newest):
        assert any(name.startswith("python") for name in entry.body["ancestry"]), "pytest's own process at least"


def _runs_below_a_host() -> bool:
    script = "from callosum.person import refuse_agents; refuse_agents(None, 'x')"
    return subprocess.run([sys.executable, "-c", script], capture_output=True, check=False).returncode != 0


def test_session_below_a_host_resolves_only_its_own_instance_below_tier_4(
    state: Path, gate: LocalGate, ids: tuple[str, ...], claude: Path
) -> None:
    resolve = "gate.resolve({}, happened=False, by='{}').note"
    assert "belongs to another instance" in answer_in_process(state, ids, resolve.format("LOST", "doug"), host=claude)
    assert "ask the person to run" in answer_in_process(state, ids, resolve.format("LOST", "doug"), host=claude)
    assert answer_in_process(state, ids, resolve.format("LOST", "mira/s2"), host=claude) == "None"
    paid = gate.intercept(Call("mira", "pay", {"to": "initech", "amount": 5})).id
    gate.complete("mira", id=paid, outcome="unknown")
    critical = answer_in_process(state, ("1", str(paid), "1"), resolve.format("LOST", "mira"), host=claude)
    assert "this action is of tier 4" in critical
    assert gate.store.action("default", paid).state == "unknown"  # type: ignore[union-attr]


PROOF = """
import sys
from callosum.person import refuse_agents
try:
    refuse_agents(None, "refused")
    answer = "a person"
except Exception as refusal:
    answer = str(refusal)
with open(sys.argv[1] + "~", "w") as file:
    file.write(answer)
import os
os.rename(sys.argv[1] + "~", sys.argv[1])
"""
CLEAN = "env -i PATH=/usr/bin:/bin"
DETACHED = {
    "is set for process": f"(setsid sh -c '{CLEAN} script -qec \"$PROVE\" /dev/null; :' &)",
    "began after process": f'({CLEAN} PROVE="$PROVE" setsid sh -c \'script -qec "$PROVE" /dev/null; :\' &)',
}
OWN = {
    "pane of the same multiplexer": 'export TMUX_TMPDIR=$D; tmux -f/dev/null new -d "$HOST"; $WAIT; tmux new -d "$PROVE"',
    "same login": 'script -qec "$HOST & $WAIT; $PROVE" /dev/null',
    "login later": '$HOST & $WAIT; setsid sh -c "$PROVE; :"',
    "container": 'unshare -Urpf --mount-proc sh -c "$HOST & $WAIT; $PROVE"',
}


def proof(tmp_path: Path, claude: Path, line: str) -> str:
    """Return what ``PROOF`` says in a line of a shell; ``$HOST`` is a host that says when it runs, for ``$WAIT``."""
    answer, fifos = tmp_path / "answer", [tmp_path / "began", tmp_path / "go-on"]
    for fifo in fifos:
        os.mkfifo(fifo)
    began, go_on = (os.open(fifo, os.O_RDWR) for fifo in fifos)
    (tmp_path / "proof.py").write_text(PROOF)
    (tmp_path / "host").write_text(f"echo > {fifos[0]}; read x < {fifos[1]}\n")
    (tmp_path / "wait").write_text(f"read x < {fifos[0]}\n")
    prove = f"{sys.executable} {tmp_path}/proof.py {answer}"
    told = {"PROVE": prove, "HOST": f"{claude} {tmp_path}/host", "WAIT": f"sh {tmp_path}/wait", "D": str(tmp_path)}
    with subprocess.Popen(["sh", "-c", line], env=environment(tmp_path, **told), stdout=subprocess.DEVNULL) as shell:
        until(answer.exists)
        os.write(go_on, b"\n")
        shell.wait(60)
    os.close(began)
    os.close(go_on)
    return answer.read_text()


@pytest.mark.parametrize(("why", "line"), DETACHED.items(), ids=DETACHED.keys())
def test_session_that_a_hosts_descendant_made_is_no_persons(tmp_path: Path, claude: Path, why: str, line: str) -> None:
    (tmp_path / "line").write_text(line + "\n. $D/host")
    assert why in proof(tmp_path, claude, f"CLAUDECODE=1 {claude} $D/line; :")


@pytest.mark.parametrize("line", OWN.values(), ids=OWN.keys())
def test_persons_own_pane_login_and_container_are_a_persons(tmp_path: Path, claude: Path, line: str) -> None:
    assert proof(tmp_path, claude, line) == "a person"
