"""What holds with every framework: each function here is run with each of them (``test_matrix.py``).

A function's name is that of a row of ``harness.BEHAVIOURS``.
"""

# no `from __future__ import annotations`: frameworks read the annotations of tools

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from callosum import CallosumClient, LocalGate
from callosum.gate import Gate
from callosum.model import Entry, Event, Outcome, Verdict
from callosum.settings import Settings
from tests.adapters.harness import Framework, Job, Mode, Nested, RunResult, Scripted, Tool
from tests.support.serving import launch

RULES = """{"rules": [
  {"name": "deploy", "tool": "DEPLOY", "tier": 3, "verdict": "ask", "contextKey": "host:{params.host}"},
  {"name": "helper", "tool": "HELPER", "tier": 3, "contextKey": "email:a@example.com"}]}"""
ALICE = "a@example.com"
SECONDS = 60


class Bench:
    """A gate, tools that record their calls, and one framework in one of its modes."""

    def __init__(self, framework: Framework, mode: Mode, folder: Path) -> None:
        self.framework, self.mode, self.folder = framework, mode, folder
        (folder / "tiers.json").write_text(
            RULES.replace("DEPLOY", framework.named("deploy")).replace("HELPER", framework.named("ask_helper"))
        )
        self.gate = LocalGate(settings=Settings(state=folder, host_approvals=True))
        self.did: list[str] = []
        self.awaited = mode != "sync" and framework.async_tools

    @property
    def tiers(self) -> dict[str, int] | None:
        """Return the tier table for an unreachable gate; None for the default one, which knows plain names."""
        reads = self.framework.named("read_file")
        return None if reads == "read_file" else {reads: 0}

    # --- tools ---

    def mail(self, before: Callable[[str], object] = lambda _: None, awaited: Any = None, **more: Any) -> Tool:
        """Return ``send_email``; ``before`` is called first, and may raise."""

        def send_email(to: str, body: str) -> str:
            """Send an e-mail."""
            before(body)
            self.did.append(body)
            return f"sent {body}"

        return Tool(send_email, awaited, **more)

    def deploy(self) -> Tool:
        """Return a tool of which a person must decide."""

        def deploy(host: str) -> str:
            """Deploy to a host."""
            self.did.append(host)
            return f"deployed {host}"

        return Tool(deploy)

    def disk(self) -> tuple[Tool, Tool]:
        """Return a tool that reads, and one of tier 4."""

        def read_file(path: str) -> str:
            """Read a file."""
            self.did.append(path)
            return f"content of {path}"

        def wipe_disk(host: str) -> str:
            """Delete all data of a host, for good."""
            self.did.append(host)
            return "gone"

        return Tool(read_file), Tool(wipe_disk)

    # --- runs ---

    def run(
        self, *turns: Sequence[Scripted], tools: Sequence[Any] = (), gate: Gate | None = None, **job: Any
    ) -> RunResult:
        """Run an agent with these turns, by default with ``send_email``, and return the result of the run."""
        options = {"instance": "mira", **job.pop("options", {})}
        made = Job(gate or self.gate, turns, tools or [self.mail()], awaited=self.awaited, options=options, **job)
        return self.ran(made)

    def ran(self, job: Job) -> RunResult:
        """Run a job in this mode."""
        if self.mode == "sync":
            return self.framework.run(job)
        run = self.framework.arun if self.mode == "async" else self.framework.stream
        return asyncio.run(run(job))

    def entries(self, event: Event = Event.INTERCEPT) -> list[Entry]:
        """Return the journal's entries of this event, oldest first."""
        return [entry for entry in self.gate.entries() if entry.event is event]

    def outcomes(self) -> list[Outcome | None]:
        """Return how the calls ended, in order."""
        return [entry.outcome for entry in self.entries(Event.COMPLETE)]

    def reads_refusal(self, ran: RunResult, id: str, tool: str = "send_email") -> None:
        """Check that the model read the sentence of the newest call, whole and with nothing but the framework's frame."""
        body = self.entries()[-1].body
        sentence = body["warning"] + body.get("details", "")
        assert ran.read[id] == self.framework.around.format(sentence=sentence, tool=self.framework.named(tool))


def mail(id: str, body: str, to: str = ALICE) -> Scripted:
    """Return a scripted call of ``send_email``."""
    return Scripted("send_email", id, {"to": to, "body": body})


def at_once(function: Callable[[], Any]) -> Any:
    """Return the function's result from a thread of its own, which has no context of the call around it."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join(SECONDS)
    return found[0]


def deny(bench: Bench) -> None:
    assert bench.run([mail("c1", "Friday works")]).read["c1"] == "sent Friday works"
    ran = bench.run([mail("c1", "Friday does not")], conversation="heartbeat")
    bench.reads_refusal(ran, "c1")
    assert "mira/chat acted on" in ran.read["c1"]
    assert bench.did == ["Friday works"]
    assert bench.outcomes() == [Outcome.DONE]
    if bench.framework.structured:
        assert ran.conflicts["c1"][0]["instance"] == "mira/chat"


def confirm(bench: Bench) -> None:
    bench.run([mail("c1", "Friday works")])
    ran = bench.run([mail("c1", "no")], [mail("c2", "no")], conversation="heartbeat")
    assert "[Callosum]" in ran.read["c1"]
    assert ran.read["c2"] == "sent no"
    assert bench.did == ["Friday works", "no"]


def ask_and_resume(bench: Bench) -> None:
    for answer in (True, False):
        host = f"prod-{answer}"
        job = Job(
            bench.gate,
            [[Scripted("deploy", "c1", {"host": host})]],
            [bench.deploy()],
            conversation=host,
            options={"instance": "mira", "host_approvals": True, **bench.framework.answers},
            awaited=bench.awaited,
        )
        asked = bench.ran(job)
        assert asked.paused is not None
        assert host not in bench.did
        ran = bench.ran(replace(job, paused=asked.paused, answer=answer))
        assert ran.error is None
        assert bench.did.count(host) == answer
        assert (ran.read["c1"] == f"deployed {host}") == answer
    approved = bench.entries(Event.APPROVE)
    assert [(entry.body["by"], entry.body["channel"]) for entry in approved] == [("host", "host")]


def parallel(bench: Bench) -> None:
    together = threading.Barrier(2)
    arrived = 0
    both = asyncio.Event()

    def met(_body: str) -> None:
        together.wait(SECONDS)

    async def awaited(to: str, body: str) -> str:
        nonlocal arrived
        arrived += 1
        if arrived == 2:
            both.set()
        await asyncio.wait_for(both.wait(), SECONDS)
        bench.did.append(body)
        return f"sent {body}"

    concurrent = bench.mode in bench.framework.concurrent
    tool = bench.mail(met, awaited) if concurrent else bench.mail()
    ran = bench.run([mail("c1", "one"), mail("c2", "two", "b@example.com")], tools=[tool])
    assert ran.read == {"c1": "sent one", "c2": "sent two"}
    assert sorted(bench.did) == ["one", "two"]
    assert bench.outcomes() == [Outcome.DONE, Outcome.DONE]
    ran = bench.run([mail("c3", "no"), mail("c4", "no")], conversation="heartbeat")
    assert all("[Callosum]" in text for text in ran.read.values())
    assert len(bench.did) == 2


def streaming(bench: Bench) -> None:
    deny(bench)
    ran = bench.run([mail("c1", "no")], [mail("c2", "no")], conversation="cron")
    assert "[Callosum]" in ran.read["c1"]
    assert ran.read["c2"] == "sent no"


def nested_agent(bench: Bench) -> None:
    helper = Nested("ask_helper", [[mail("i1", "from the helper")]], [bench.mail()])
    ran = bench.run([Scripted("ask_helper", "c1", {"input": "mail"})], tools=[helper])
    assert ran.error is None
    assert bench.did == ["from the helper"]
    outer, inner = bench.entries()
    assert [outer.tool, inner.tool] == [bench.framework.named(tool) for tool in ("ask_helper", "send_email")]
    assert [outer.verdict, inner.verdict] == [Verdict.ALLOW, Verdict.ALLOW]
    assert outer.session == "mira/chat"
    if inner.session != outer.session:
        assert inner.session is not None
        assert bench.gate.store.kin("default", inner.session).parent == outer.session
    assert bench.outcomes() == [Outcome.DONE, Outcome.DONE]


def retry(bench: Bench) -> None:
    fails = iter([ValueError("no such user")])

    def sometimes(_body: str) -> None:
        for error in fails:
            raise error

    tool = bench.mail(sometimes)
    ran = bench.run([mail("c1", "hi")], [mail("c2", "hi")], tools=[tool])
    if ran.error is not None:  # the framework ends the run of which a tool raised
        ran = bench.run([mail("c2", "hi")], tools=[tool])
    assert ran.read["c2"] == "sent hi"
    assert bench.did == ["hi"]
    assert bench.outcomes() == [Outcome.FAILED, Outcome.DONE]


def cancelled(bench: Bench) -> None:
    began = asyncio.Event()

    async def awaited(to: str, body: str) -> str:
        began.set()
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    async def whole() -> None:
        tools = [bench.mail(awaited=awaited)]
        job = Job(bench.gate, [[mail("c1", "hi")]], tools, options={"instance": "mira"}, awaited=True)
        running = asyncio.create_task(bench.framework.arun(job))
        waiting = asyncio.create_task(began.wait())
        await asyncio.wait([running, waiting], timeout=SECONDS, return_when=asyncio.FIRST_COMPLETED)
        assert began.is_set()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    asyncio.run(whole())  # joins the threads that report
    assert bench.outcomes() == [Outcome.UNKNOWN]
    ran = bench.run([mail("c1", "again")], conversation="heartbeat")
    bench.reads_refusal(ran, "c1")


def tool_raises(bench: Bench) -> None:
    raised = {
        ValueError("no such user"): Outcome.FAILED, ConnectionRefusedError("nobody there"): Outcome.FAILED,
        TimeoutError("no answer"): Outcome.UNKNOWN, ConnectionResetError("cut"): Outcome.UNKNOWN,
    }  # fmt: skip
    for place, (error, outcome) in enumerate(raised.items()):

        def fail(_body: str, error: Exception = error) -> None:
            raise error

        call = mail("c1", "hi", f"{place}@example.com")
        ran = bench.run([call], tools=[bench.mail(fail)], conversation=str(error))
        assert ran.error is not None or "sent" not in ran.read["c1"]
        assert bench.outcomes()[-1] is outcome, error
    assert len(bench.outcomes()) == len(raised)


def gate_away(bench: Bench) -> None:
    calls = [Scripted("read_file", "c1", {"path": "/a"}), Scripted("wipe_disk", "c2", {"host": "prod"})]
    with CallosumClient(
        "http://127.0.0.1:9", state=bench.folder / "client", deadline=0.2, fallback=bench.tiers
    ) as gate:
        ran = bench.run(calls, tools=bench.disk(), gate=gate)
    assert ran.error is None
    assert ran.read["c1"] == "content of /a"
    assert "[Callosum]" in ran.read["c2"]
    assert bench.did == ["/a"]


def gate_killed(bench: Bench) -> None:
    server = launch(bench.folder / "server")
    tools = [bench.mail(lambda _: server.kill()), *bench.disk()]
    calls = [Scripted("read_file", "c2", {"path": "/a"}), Scripted("wipe_disk", "c3", {"host": "prod"})]
    try:
        with CallosumClient(server.address, state=bench.folder / "client", deadline=2, fallback=bench.tiers) as gate:
            ran = bench.run([mail("c1", "hi")], calls, tools=tools, gate=gate)
            assert ran.error is None
            assert ran.read["c1"] == "sent hi"
            assert ran.read["c2"] == "content of /a"
            assert "[Callosum]" in ran.read["c3"]
            assert bench.did == ["hi", "/a"]
            server = launch(bench.folder / "server", "--port", str(server.host_and_port[1]))
            assert gate.flush()
            journal = gate.journal().entries
    finally:
        server.kill()
    told = [(entry.tool, entry.outcome) for entry in journal if entry.event is Event.COMPLETE]
    assert told == [(bench.framework.named(tool), Outcome.DONE) for tool in ("send_email", "read_file")]


def two_sessions(bench: Bench) -> None:
    other: list[RunResult] = []

    def during(_body: str) -> None:
        if not other:
            other.append(RunResult())
            other[0] = at_once(lambda: bench.run([mail("c1", "no")], conversation="heartbeat"))

    ran = bench.run([mail("c1", "Friday works")], tools=[bench.mail(during)])
    assert ran.read["c1"] == "sent Friday works"
    assert "mira/chat has an active action" in other[0].read["c1"]
    assert [entry.session for entry in bench.entries()] == ["mira/chat", "mira/heartbeat"]
    assert bench.did == ["Friday works"]


def injected_arguments(bench: Bench) -> None:
    tool = bench.mail(inject=True)
    ran = bench.run([mail("c1", "hi")], tools=[tool])
    assert ran.read["c1"] == "sent hi"
    assert len(tool.injected) == 1
    assert bench.entries()[-1].body["params"] == {"to": ALICE, "body": "hi"}


CHECKS: Mapping[str, Callable[[Bench], None]] = {
    "deny": deny, "confirm": confirm, "ask and resume": ask_and_resume, "parallel": parallel,
    "streaming": streaming, "nested agent": nested_agent, "retry": retry, "cancelled": cancelled,
    "tool raises": tool_raises, "gate away": gate_away, "gate killed": gate_killed, "two sessions": two_sessions,
    "injected arguments": injected_arguments,
}  # fmt: skip


def modes_of(behaviour: str, framework: Framework) -> list[Mode]:
    """Return the modes in which a behaviour is checked."""
    if behaviour == "streaming":
        return ["streamed"]
    if behaviour == "cancelled":
        return ["async"]
    if behaviour in ("gate killed", "gate away"):  # the same in all modes: a process must start and end
        return [next(mode for mode in framework.modes if mode != "streamed")]
    return [mode for mode in framework.modes if mode != "streamed"]
