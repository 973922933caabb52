"""The brief between real processes: one acts and the other gets the brief by command, server and stdio."""

import asyncio
import json
import sys
import time
from pathlib import Path

import pytest

from callosum.brief import HEAD, Brief
from callosum.characters import tokens
from callosum.client import AsyncCallosumClient, CallosumClient
from callosum.corpus.bus import Corpus
from callosum.errors import GateUnavailable
from callosum.gate import LocalGate
from callosum.model import Call, Change, Key, Mode, Opening, State, View
from callosum.regions.budget import RAS
from callosum.regions.context import Prefrontal
from callosum.server.tokens import FILE as TOKENS
from callosum.server.tokens import Tokens
from callosum.stores.base import Request
from callosum.testing.script import LEASE, StoreScript
from tests.acceptance.command import CALLOSUM, environment, run
from tests.support import forking
from tests.support.cpu import slowness
from tests.support.serving import serving

SESSION_A = """
import sys
from callosum import Call, LocalGate
with LocalGate(sys.argv[1]) as gate:
    def do(tool, params, end=True):
        decision = gate.intercept(Call("mira", tool, params, session="a"))
        assert decision.proceed, decision
        if end:
            assert gate.complete("mira", id=decision.id, session="a", result={"ok": True}).ok
    do("edit", {"path": "/repo/a.py", "old": "1", "new": "2"})
    do("message", {"action": "send", "target": "andy", "replyTo": "msg-500", "message": "On it"}, end=False)
    do("send_email", {"to": "alice@example.com", "subject": "Friday", "body": "Friday works."})
"""
CROWD = 10_000
BOUND = 0.25
"""Seconds for one brief amid a crowd: many times what it takes, on a machine with much else to do."""


def session_a(state: Path) -> None:
    """Run another process that edits, has a reply pending, has sent a mail, and ends."""
    forking.run([sys.executable, "-c", SESSION_A, str(state)], env=environment(state), check=True, timeout=60)


def session_b(state: Path) -> None:
    """Read the file in this process; a moment later another process edits it."""
    with LocalGate(state) as gate:
        decision = gate.intercept(Call("mira", "read", {"path": "/repo/a.py"}, session="b"))
        gate.complete("mira", id=decision.id, session="b")


def test_brief_of_one_session_has_the_latest_actions_of_another(state: Path) -> None:
    session_b(state)
    session_a(state)
    shown = run(state, "brief", "--instance", "mira", "--session", "b", "--prompt", "Write to alice@example.com")
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = shown.stdout.splitlines()
    assert lines[0] == HEAD
    assert any(line.startswith('- mira/a acted on "file:/repo/a.py"') for line in lines)
    assert any(line.startswith('- mira/a acted on "email:alice@example.com"') for line in lines)
    assert any(line.startswith('- mira/a is working on "thread:andy:msg-500" (message, begun') for line in lines)
    assert "mira/b" not in shown.stdout


def test_empty_brief_prints_nothing(state: Path) -> None:
    """The command also creates nothing; as JSON the brief is empty."""
    words = ("brief", "--instance", "mira")
    shown = run(state, *words)
    assert (shown.returncode, shown.stdout, shown.stderr) == (0, "", "")
    assert not state.exists()
    session_b(state)
    shown = run(state, *words, "--session", "b")
    assert (shown.returncode, shown.stdout, shown.stderr) == (0, "", "")
    assert json.loads(run(state, *words, "--session", "b", "--json").stdout) == {
        "text": "", "tokens": 0, "sections": [], "trimmed": 0,
    }  # fmt: skip


def test_brief_stays_within_its_budget(state: Path) -> None:
    session_a(state)
    words = ("brief", "--instance", "doug", "--cwd", "/repo", "--json")
    whole = json.loads(run(state, *words).stdout)
    assert whole["trimmed"] == 0
    assert whole["tokens"] == tokens(whole["text"])
    for budget in (0, 1, 50):
        assert json.loads(run(state, *words, "--budget", str(budget)).stdout)["text"] == ""
        shown = run(state, *words[:-1], "--budget", str(budget))
        count = sum(len(section["lines"]) for section in whole["sections"])
        said = f"callosum: {count} {'line' if count == 1 else 'lines'} did not fit the budget\n"
        assert (shown.returncode, shown.stdout, shown.stderr) == (0, "", said)
    less = json.loads(run(state, *words, "--budget", str(whole["tokens"] - 25)).stdout)
    assert less["trimmed"] >= 1
    assert less["text"].splitlines()[-1].endswith("left out.)")
    (state / "callosum.toml").write_text("[brief]\nbudget = 0\n")
    assert run(state, *words[:-1], "--config", str(state / "callosum.toml")).stdout == ""


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ((), 2, "--instance: whose brief?"),
        (("--instance", "a\nb"), 2, "--instance: control characters"),
        (("--instance", "a", "--key", ""), 2, "--key: expected 1 to 1024 characters"),
        (("--instance", "a", "--budget", "-1"), 2, "Invalid value for '--budget'"),
        (("--instance", "a", "--budget", "9999999"), 2, "Invalid value for '--budget'"),
        (("--instance", "a", "--cwd", ""), 2, "--cwd: expected a path"),
    ],
)
def test_unusable_options_are_refused(state: Path, words: tuple[str, ...], code: int, says: str) -> None:
    session_b(state)
    shown = run(state, "brief", *words)
    assert shown.returncode == code
    assert says in " ".join(shown.stderr.replace("│", " ").split())
    assert "Traceback" not in shown.stderr


def test_server_answers_with_text_tokens_and_sections(state: Path) -> None:
    session_b(state)
    session_a(state)
    with serving(state) as server:
        brief = server.get("/brief?instance=mira&session=b&key=thread%3Aandy%3Amsg-500&key=file%3A%2Frepo%2F")
        assert brief["text"].startswith(HEAD)
        assert brief["tokens"] == tokens(brief["text"])
        titles = [section["title"] for section in brief["sections"]]
        assert titles[0] == "Running now, where this session works"
        assert all(line in brief["text"] for section in brief["sections"] for line in section["lines"])
        small = server.get("/brief?instance=mira&session=b&budget=90")
        assert small["tokens"] <= 90
        assert small["trimmed"]
        assert server.get("/brief?instance=mira&namespace=other")["text"] == ""
        for query, at in (
            ("", "instance"),
            ("instance=", "instance"),
            ("instance=a&instance=b", "instance"),
            ("instance=a&budget=-1", "budget"),
            ("instance=a&key=", "key[0]"),
            ("instance=a&key=b%0A", "key"),
            ("instance=a&" + "&".join(["key=k"] * 33), "key"),
        ):
            refused = server.ask("GET", f"/brief?{query}")
            assert (refused.status, refused.body["at"]) == (400, at), query
        with CallosumClient(server.address) as client:
            found = client.brief("mira", "b", keys=["thread:andy:msg-500", "file:/repo/"], cwd="/repo")
            assert found.sections[0].title == titles[0]
            assert found.text.startswith(HEAD)
            assert client.brief("mira", "b", budget=0).text == ""
        assert asyncio.run(ask(server.address)).startswith(HEAD)


async def ask(address: str) -> str:
    async with AsyncCallosumClient(address) as client:
        return (await client.brief("mira", "b")).text


def test_token_reads_only_in_its_namespaces(state: Path) -> None:
    secret = Tokens(state / TOKENS).add("laptop", instance="mira", namespaces=("work",))
    with serving(state) as server:
        assert server.get("/brief?instance=mira&namespace=work", token=secret)["text"] == ""
        refused = server.ask("GET", "/brief?instance=doug&namespace=work", token=secret)
        assert (refused.status, refused.body["at"]) == (403, "instance"), "it is told of whoever asks"
        refused = server.ask("GET", "/brief?instance=mira", token=secret)
        assert (refused.status, refused.body["at"]) == (403, "namespace")
        assert server.ask("GET", "/brief?instance=mira", token="cal_no_such").status == 401
        assert server.ask("POST", "/brief", {}).status == 405


def test_client_without_a_server_gets_no_brief(tmp_path: Path) -> None:
    """The host then adds nothing to the context."""
    with CallosumClient(f"unix:{tmp_path}/none.sock", deadline=0.2) as client, pytest.raises(GateUnavailable):
        client.brief("mira")


def test_stdio_answers_with_a_brief(state: Path) -> None:
    session_b(state)
    session_a(state)
    asked = [
        {"jsonrpc": "2.0", "id": 1, "method": "brief", "params": {"instance": "mira", "session": "b", "cwd": "/repo"}},
        {"jsonrpc": "2.0", "id": 2, "method": "brief", "params": {"instance": "mira", "budget": -1}},
        {"jsonrpc": "2.0", "id": 3, "method": "brief", "params": {"instance": "mira", "keys": [""]}},
    ]
    done = forking.run(
        [*CALLOSUM, "stdio"],
        input="".join(json.dumps(one) + "\n" for one in asked),
        capture_output=True,
        text=True,
        env=environment(state),
        timeout=60,
        check=True,
    )
    answers = {answer["id"]: answer for answer in map(json.loads, done.stdout.splitlines())}
    assert answers[1]["result"]["text"].startswith(HEAD)
    assert "mira/a" in answers[1]["result"]["text"]
    assert [answers[id]["error"]["data"]["at"] for id in (2, 3)] == ["budget", "key"]


def crowded(script: StoreScript, session: str) -> Request:
    """Open a tier 3 lease on a key of the session's own and on a key that all sessions share."""
    keys = (Key("channel:#plaza", Mode.APPEND), Key(f"doc:{session}"))

    def step(view: View) -> Change:
        return Change((script.entry(session, keys, tier=3),), Opening(State.OPEN, view.now + LEASE))

    return script.scope(session, keys, live=False), step


def test_brief_among_ten_thousand_sessions_is_bounded(state: Path) -> None:
    """Length and time are bounded, and the actions that concern the session come first."""
    session_b(state)
    message = {"action": "send", "target": "#plaza", "message": "me too"}
    with LocalGate(state) as gate:
        script = StoreScript(gate.store)
        for first in range(0, CROWD, 500):
            requests = [crowded(script, f"other-{number}") for number in range(first, first + 500)]
            assert not any(isinstance(one, Exception) for one in gate.store.transact(requests))
        gate.intercept(Call("mira", "message", message, session="b"))
        gate.handle(Call("doug", "message", {**message, "message": "what next"}))
        with Corpus() as corpus:
            prefrontal, ras = Prefrontal(corpus, store=gate.store), RAS(corpus)
            took = []
            brief = Brief()
            for _ in range(5):
                began = time.thread_time()
                brief = ras.trim(prefrontal.brief("mira", "b", cwd="/repo"))
                took.append(time.thread_time() - began)
    assert brief.tokens <= 600
    assert 'doug is working on "channel:#plaza"' in brief.sections[0].lines[0]
    assert sorted(took)[2] < BOUND * slowness()
    assert run(state, "brief", "--instance", "mira", "--session", "b", "--cwd", "/repo").stdout.startswith(HEAD)
