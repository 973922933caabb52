"""``callosum events`` as people and programs use it: real processes, a real server, real terminals."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from callosum.cli.eventsource import JOURNALLED
from callosum.corpus.bus import Corpus
from callosum.corpus.daily_log import FOLDER, DailyLog
from callosum.corpus.events import CATALOGUE
from callosum.gate import LocalGate
from callosum.loopback import read_token
from callosum.model import Call
from callosum.server.tokens import Tokens
from tests.acceptance.command import CALLOSUM, ROOT, at_terminal, environment, run
from tests.support import forking
from tests.support.serving import Server, launch, serving, until
from website.events import example

PATIENCE = 60.0
NEEDS = "what hosts report (llm.*, input.*, ...) and all the rest needs one"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    made = tmp_path / "state"
    made.mkdir(mode=0o700)
    (made / "tiers.json").write_text(
        json.dumps({"rules": [{"name": "pay", "tier": 4, "tool": "pay", "verdict": "ask"}]})
    )
    return made


def send(target: str, instance: str = "mira") -> dict[str, Any]:
    params = {"action": "send", "target": target, "replyTo": "m1", "message": "On it"}
    return {"instance": instance, "tool": "message", "params": params}


def decide(gate: LocalGate, target: str, instance: str = "mira") -> None:
    call = send(target, instance)
    gate.intercept(Call(instance, call["tool"], call["params"]))


class Following:
    """The command as a process that goes on; its lines one at a time."""

    def __init__(self, state: Path, *words: str, **env: str) -> None:
        self.process = forking.Popen(
            [*CALLOSUM, "events", "--follow", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(state, **env),
            cwd=state.parent,
        )
        self._text = {1: b"", 2: b""}

    def _line(self, file: int) -> str:
        pipe = self.process.stdout if file == 1 else self.process.stderr
        assert pipe is not None
        while b"\n" not in self._text[file]:
            assert select.select([pipe], [], [], PATIENCE)[0], f"no line came; before it {self._text[file]!r}"
            more = os.read(pipe.fileno(), 65536)
            assert more, f"it ended: {self.process.wait(PATIENCE)}, {self._rest()!r}"
            self._text[file] += more
        line, _, self._text[file] = self._text[file].partition(b"\n")
        return line.decode()

    def _rest(self) -> bytes:
        assert self.process.stderr is not None
        left: bytes = self.process.stderr.read()
        return self._text[2] + left

    def line(self) -> str:
        return self._line(1)

    def told(self) -> str:
        """The next thing it tells a person."""
        return self._line(2)

    def event(self) -> tuple[str, dict[str, Any]]:
        found = json.loads(self.line())
        assert list(found) == ["type", "payload"]
        return found["type"], found["payload"]


@contextmanager
def following(state: Path, *words: str, **env: str) -> Iterator[Following]:
    command = Following(state, *words, **env)
    try:
        yield command
        assert command.process.poll() is None, command._rest()
        command.process.send_signal(signal.SIGINT)
        assert command.process.wait(PATIENCE) == 130
        assert b"Traceback" not in command._rest()
    finally:
        command.process.kill()
        command.process.wait()
        for pipe in (command.process.stdout, command.process.stderr):
            assert pipe is not None
            pipe.close()


def target_of(server: Server, event: tuple[str, dict[str, Any]]) -> str:
    """To whom the message went that an event tells of: the journal knows."""
    entries = server.get("/journal?limit=1000")["entries"]
    (target,) = {e["body"]["params"]["target"] for e in entries if e["seq"] == event[1]["id"]}
    return str(target)


def test_decisions_are_shown_as_they_come(state: Path) -> None:
    with serving(state) as server, following(state, "safety.*", "--json") as command:
        for target in ("andy", "bea"):
            server.post("/intercept", send(target))
            type, payload = command.event()
            assert (type, payload["toolName"], payload["instance"]) == ("safety.allowed", "message", "mira")
            assert target_of(server, (type, payload)) == target
        server.post("/intercept", {"instance": "zoe", "tool": "pay", "params": {"to": "globex"}})
        type, payload = command.event()
        assert (type, payload["instance"], payload["toolName"]) == ("safety.blocked", "zoe", "pay")
        assert "a person must decide" in payload["reason"]


def test_what_hosts_report_is_shown_in_words(state: Path) -> None:
    with serving(state) as server:
        server.post("/intercept", send("andy"))
        with following(state, "safety.allowed", "llm.*", "--session", "mi*") as command:
            assert command.line().endswith("  safety.allowed        mira              message  allow, high")
            reported = {"type": "llm.response", "provider": "acme", "model": "m-1", "tokens": 342}
            server.post("/events", [{**reported, "instance": "zoe"}, {**reported, "instance": "mira/inbox"}])
            assert command.line().endswith("  llm.response          mira/inbox        acme m-1: 342 tokens")


@pytest.mark.parametrize("by", ["state", "url"])
def test_a_restart_of_the_server_loses_and_repeats_nothing(state: Path, by: str) -> None:
    with serving(state) as server:
        where = ("--url", server.address) if by == "url" else ()
        server.post("/intercept", send("one"))
        with following(state, "safety.*", "--json", *where) as command:
            seen = [command.event()]
            server.post("/intercept", send("two"))
            seen.append(command.event())
            server.kill()
            assert "was lost" in command.told()
            with LocalGate(state) as gate:
                decide(gate, "while it was away")
            if by == "state":
                assert NEEDS in command.told()
                seen.append(command.event())  # from the journal
            port = server.address.rpartition(":")[2]
            again = launch(state, "--port", port)
            try:
                if by == "url":
                    assert "is back" in command.told()
                    seen.append(command.event())
                else:
                    assert "is there" in command.told()
                again.post("/intercept", send("three"))
                seen.append(command.event())
                assert [target_of(again, one) for one in seen] == ["one", "two", "while it was away", "three"]
            finally:
                again.stop()


def test_who_reads_too_slowly_is_told_how_much_is_missing(state: Path) -> None:
    parsed = {"type": "tool.parsed", "calls": [{"name": "x" * 200, "args": {"a": "y" * 200}}] * 100}  # some 43 kB
    with serving(state) as server, following(state, "safety.*", "tool.parsed", "--json") as command:
        for target in ("andy", "bea"):  # the second comes through the stream for certain
            server.post("/intercept", send(target))
            assert command.event()[0] == "safety.allowed"
        command.process.send_signal(signal.SIGSTOP)
        sent = 800  # more than the ring and the buffers of both sides hold
        for _ in range(sent // 20):
            server.post("/events", [parsed] * 20)
        server.post("/intercept", send("carl"))
        command.process.send_signal(signal.SIGCONT)
        others, dropped, seen = 0, 0, False
        while not seen or others + dropped < sent:
            type, payload = command.event()
            others += type == "tool.parsed"
            dropped += payload["count"] if type == "stream.dropped" else 0
            seen = seen or type == "safety.allowed"
        assert dropped > 0
        assert others + dropped == sent


def test_the_token_is_shown_to_the_server(state: Path, tmp_path: Path) -> None:
    tokens = Tokens(state / "tokens.json")
    secret, other = tokens.add("reader", namespaces=("team",)), tokens.add("gone")
    tokens.remove("gone")
    (tmp_path / "token").write_text(f"{secret}\n")
    with serving(state) as server:
        server.post("/intercept", {**send("andy"), "namespace": "team"}, token=secret)
        server.post("/intercept", send("bea"), token=read_token(state))
        asked = ("events", "--url", server.address, "--json")
        shown = run(state, *asked, "--namespace", "team", "--token-file", str(tmp_path / "token"))
        assert [json.loads(line)["payload"]["namespace"] for line in shown.stdout.splitlines()] == ["team"] * 3
        shown = run(state, *asked, env={"CALLOSUM_TOKEN": secret})
        assert (shown.returncode, shown.stdout) == (2, "")
        assert "namespace: name one of this token's namespaces" in shown.stderr
        shown = run(state, *asked, env={"CALLOSUM_TOKEN": other})
        assert (shown.returncode, shown.stdout) == (2, "")
        assert "--token-file, or CALLOSUM_TOKEN" in shown.stderr
        shown = run(state, *asked, "--token-file", str(tmp_path / "none"))
        assert shown.returncode == 2
        assert "--token-file: cannot be read: No such file" in shown.stderr
        # The folder is this user's own: where its server refuses, its journal does not.
        with following(state, "tool.*", "--json", CALLOSUM_TOKEN=other) as command:
            assert "--token-file, or CALLOSUM_TOKEN" in command.told()
            assert NEEDS in command.told()
            assert [command.event()[1]["namespace"] for _ in range(2)] == ["team", "default"]
            server.post("/intercept", send("carl"), token=read_token(state))
            assert command.event()[1]["args"]["target"] == "carl"


def test_a_server_that_is_not_there(state: Path) -> None:
    shown = run(state, "events", "--follow", "--url", "http://127.0.0.1:9")
    assert shown.returncode == 3
    assert shown.stderr.startswith("callosum: the gate at http://127.0.0.1:9 cannot be asked")
    shown = run(state, "events", "--url", "gopher://x")
    assert shown.returncode == 2


def test_what_hosts_reported_before_is_not_what_comes(state: Path) -> None:
    with serving(state) as server:
        server.post("/intercept", send("andy"))
        server.post("/events", {"type": "llm.token", "delta": "before"})
        with following(state, "--url", server.address, "-n", "1", "safety.*", "llm.*", "--json") as command:
            assert command.event()[0] == "safety.allowed"
            server.post("/events", {"type": "llm.token", "delta": "now"})
            assert command.event()[1]["delta"] == "now"
        with following(state, "--url", server.address, "--since", "1h", "safety.*", "llm.*", "--json") as command:
            assert command.event()[0] == "safety.allowed"
            server.post("/events", {"type": "llm.token", "delta": "old", "at": time.time() - 7200})
            server.post("/events", {"type": "llm.token", "delta": "new"})
            assert command.event()[1]["delta"] == "new"


def test_what_a_server_cannot_tell_of_the_past_is_said(state: Path) -> None:
    shown = run(state, "events", "--url", "http://127.0.0.1:9", "llm.*", "input.received")
    assert shown.returncode == 2
    assert "callosum: --url: a server elsewhere tells of the past what its journal has" in shown.stderr
    assert "--follow" in shown.stderr


WRITE = """
import sys
from callosum.gate import LocalGate
from callosum.model import Call
with LocalGate(sys.argv[1]) as gate:
    print("ready", flush=True)
    for target in sys.stdin:
        gate.intercept(Call("mira", "message", {"action": "send", "target": target.strip(), "replyTo": "m", "message": "x"}))
"""


def test_without_a_server_the_journal_is_followed(state: Path) -> None:
    writer = forking.Popen(
        [sys.executable, "-c", WRITE, str(state)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert writer.stdin is not None
    assert writer.stdout is not None
    assert writer.stdout.readline() == "ready\n"
    with writer, following(state, "tool.called", "safety.*", "llm.*", "--json") as command:
        assert NEEDS in command.told()
        for target in ("andy", "bea"):
            writer.stdin.write(f"{target}\n")
            writer.stdin.flush()
            type, payload = command.event()
            assert (type, payload["args"]["target"]) == ("tool.called", target)
            assert command.event()[0] == "safety.allowed"
        with serving(state) as server:
            assert "is there" in command.told()
            server.post("/events", {"type": "llm.token", "delta": "now"})
            assert command.event()[1]["delta"] == "now"
        writer.stdin.close()


def test_on_a_folder_where_nothing_was_decided_it_waits(state: Path) -> None:
    state /= "none"
    with following(state, "--json") as command:
        assert NEEDS in command.told()
        with LocalGate(state) as gate:
            decide(gate, "andy")
        assert command.event()[0] == "tool.called"


@pytest.fixture
def decided(state: Path) -> Path:
    """A log with one of each event, an hour ago, and a journal with three calls."""
    with Corpus() as corpus, DailyLog(corpus, state / FOLDER):
        for number, kind in enumerate(CATALOGUE.values(), int(time.time()) - 3600):
            corpus.emit(structs.replace(example(kind), at=float(number), instance="mira", namespace="default"))
    with LocalGate(state) as gate:
        for target in ("andy", "bea"):
            decide(gate, target)
        gate.intercept(Call("zoe", "pay", {"to": "globex"}))
    return state


def shown(state: Path, *words: str) -> list[tuple[str, dict[str, Any]]]:
    found = run(state, "events", "--json", *words)
    assert found.returncode == (0 if found.stdout else 1), found.stderr
    return [(one["type"], one["payload"]) for one in map(json.loads, found.stdout.splitlines())]


def test_what_was_is_journal_and_log_in_the_order_of_time(decided: Path) -> None:
    found = shown(decided)
    times = [payload["at"] for _, payload in found]
    assert times == sorted(times)
    assert sorted(shown(decided, "-n", "0"), key=lambda one: one[1]["at"]) == found
    journalled = [type for type, _ in found if type in JOURNALLED]
    assert journalled == ["tool.called", "safety.allowed", "lease.taken"] * 2 + ["tool.called", "safety.blocked"]
    others = [type for type, _ in found if type not in journalled]
    assert others == [name for name in CATALOGUE if name not in JOURNALLED]
    assert shown(decided, "-n", "8") == found[-8:]
    assert shown(decided, "-n", "2", "tool.called") == [one for one in found if one[0] == "tool.called"][-2:]
    assert [type for type, _ in shown(decided, "-n", "4", "health.*,llm.*", "safety.blocked")] == [
        *("health.ok", "health.warning", "health.critical"),
        "safety.blocked",
    ]


@pytest.mark.parametrize("count", ["0", "50"])
def test_within_a_second_what_the_journal_has_comes_first(state: Path, count: str) -> None:
    """The log knows whole seconds, so by the bare times what came of a call would stand before it."""
    with LocalGate(state) as gate:
        decide(gate, "andy")
        (entry,) = gate.entries(limit=1)
    when = time.localtime(entry.seq // 1_000_000)
    (state / FOLDER).mkdir(parents=True, exist_ok=True)
    (state / FOLDER / time.strftime("%Y-%m-%d.log.md", when)).write_text(
        time.strftime("## %Y-%m-%d\n\n%H:%M:%S", when) + ' | context.built | {"tokens":1,"sections":1}\n'
    )
    names = [type for type, _ in shown(state, "-n", count)]
    assert names == ["tool.called", "safety.allowed", "lease.taken", "context.built"]


def test_entries_that_stand_for_no_event_do_not_count(state: Path) -> None:
    with LocalGate(state) as gate:
        decide(gate, "andy")
        gate.lock("mira", "file:one", ttl=60)
        for _ in range(3):
            gate.lock("mira", "file:one", ttl=60)
    assert [type for type, _ in shown(state, "-n", "3")] == ["safety.allowed", "lease.taken", "lease.taken"]


def test_what_was_can_be_narrowed(decided: Path) -> None:
    assert {type for type, _ in shown(decided, "--session", "z*")} == {"tool.called", "safety.blocked"}
    assert shown(decided, "--namespace", "team") == []
    assert shown(decided, "--since", "0s") == []
    assert len(shown(decided, "--since", "30m")) == 8
    assert len(shown(decided, "--since", "2h")) == len(shown(decided))


def test_quiet_leaves_out_what_comes_all_the_time(decided: Path) -> None:
    everything = {type for type, _ in shown(decided)}
    assert everything - {type for type, _ in shown(decided, "--quiet")} == {"scheduler.tick", "health.ok"}
    assert {type for type, _ in shown(decided, "-q", "health.*")} == {"health.warning", "health.critical"}


def test_own_fields_are_not_mistaken_for_the_name(decided: Path) -> None:
    ((type, payload),) = shown(decided, "memory.saved")
    assert (type, payload["type"]) == ("memory.saved", "episode")


def test_lines_of_the_log_that_are_none_are_passed_over(state: Path) -> None:
    folder = state / "brain" / "corpus"
    folder.mkdir(parents=True)
    (folder / "notes.log.md").write_text('09:15:02 | llm.token | {"delta":"not a day"}\n')
    (folder / "2026-05-15.log.md").write_text('23:59:58 | llm.token | {"delta":"the day before"}\n')
    long = "y" * 200_000
    (folder / "2026-05-16.log.md").write_bytes(
        b"## 2026-05-16\n\n"
        b'09:15:02 | llm.token | {"delta":"no time of its own"}\n'
        b"09:15:03 | llm.token | [1, 2]\n"
        b"09:15:03 | llm.token\n"
        b"99:99:99 | llm.token | {}\n"
        b"\xff\xfe | llm.token | {}\n"
        + f'09:15:04 | llm.token | {{"delta":"{long}"}}\n'.encode()
        + b"09:15:05 | llm.tok"
    )
    expected = ["the day before", "no time of its own", long]
    assert [payload["delta"] for _, payload in shown(state)] == expected
    assert [payload["delta"] for _, payload in shown(state, "-n", "0")] == expected
    assert shown(state)[1][1]["at"] == time.mktime((2026, 5, 16, 9, 15, 2, 0, 0, -1))
    assert [payload["delta"] for _, payload in shown(state, "--since", "2026-05-16T09:15:03")] == [long]


def test_nothing_fits(state: Path) -> None:
    found = run(state, "events")
    assert (found.returncode, found.stdout) == (1, "Nothing has been decided here yet.\n")
    assert list(state.iterdir()) == [state / "tiers.json"]
    with LocalGate(state) as gate:
        decide(gate, "andy")
    found = run(state, "events", "llm.*")
    assert (found.returncode, found.stdout) == (1, "No event fits.\n")


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("safty.*", "PATTERN: there is no event 'safty.*'; did you mean 'safety.*'?"),
        ("tool.complete", "did you mean 'tool.completed'?"),
        ("", "PATTERN: there is no event ''"),
    ],
)
def test_a_pattern_that_names_no_event(state: Path, pattern: str, said: str) -> None:
    found = run(state, "events", "--follow", pattern)
    assert found.returncode == 2
    assert said in found.stderr


HOSTILE = "acme [bold red]x[/] \x1b[2J\x07\u202e\u009b31m\nnext"


def test_at_a_terminal_it_is_in_colour(decided: Path) -> None:
    found = at_terminal(decided, "events", "-n", "0")
    assert found.code == 0
    for code, name in (
        ("31", "safety.blocked"),
        ("32", "safety.allowed"),
        ("33", "health.warning"),
        ("36", "tool.called"),
    ):
        assert f"\x1b[{code}m{name}\x1b[0m" in found.text
    assert "\x1b" not in run(decided, "events").stdout


def test_texts_of_others_do_nothing_to_the_terminal(state: Path) -> None:
    with LocalGate(state) as gate:
        gate.intercept(
            Call("mira", "acme [bold red]x[/]", {"then": "next", HOSTILE: HOSTILE, "deep": [{"a": HOSTILE}]})
        )
    with serving(state) as server:
        reported = {"type": "llm.error", "provider": HOSTILE, "error": HOSTILE, "willRetry": True}
        with following(state) as command:
            first = command.line()
            assert "acme [bold red]x[/]" in first
            command.line()
            server.post("/events", reported)
            lines = (first, command.line())
    for line in lines:
        assert line.isprintable()
        assert "next" in line
    found = at_terminal(state, "events")
    assert found.code == 0
    assert "acme [bold red]x[/]" in found.text
    for bad in ("\x1b[2J", "\x07", "\u202e", "\u009b"):
        assert bad not in found.text


def test_a_reader_that_has_seen_enough_ends_it_quietly(decided: Path) -> None:
    command = forking.Popen(
        [*CALLOSUM, "events", "-n", "0", "--follow"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(decided),
    )
    assert command.stdout is not None
    assert command.stderr is not None
    with command:
        assert command.stdout.readline()
        command.stdout.close()
        with LocalGate(decided) as gate:

            def ended() -> bool:
                decide(gate, f"t{time.monotonic_ns()}")
                return command.poll() is not None

            until(ended)
        assert b"Traceback" not in command.stderr.read()
