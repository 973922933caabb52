"""Test that a full spool is part of the view: calls it is about wait for it, others do not, and it enters in pages."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from callosum.deadline import Expiry
from callosum.errors import StoreUnavailable
from callosum.gate import LocalGate
from callosum.locks import locked
from callosum.model import Applied, Call, Decision, Key, Kind, Outcome, Scope, Verdict
from callosum.server.async_gate import ServedGate
from callosum.settings import Settings
from callosum.spool import MAX_PAGE, written
from callosum.stores.base import Request
from callosum.wire import LateCall

RECORDS = 6_000
ABOUT = "file:/srv/5/5.py"


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalGate]:
    monkeypatch.setattr(LocalGate, "here", False)  # the files of these calls do not exist, and cannot be looked at
    with LocalGate(settings=Settings(state=tmp_path, snapshots=False)) as gate:
        yield gate


def edit(number: int, session: str = "late", tool: str = "Edit") -> Call:
    params = {"file_path": f"/srv/{number % 97}/{number}.py", "old_string": "a", "new_string": "b"}
    return Call(f"m{number % 40}", tool, params, session=session, call_id=f"c{number}")


PUSH = Call("late", "Bash", {"command": "git push --force origin main"}, cwd="/srv/5")


def fill(gate: LocalGate, *calls: Call, classified: bool = True) -> None:
    found = (gate._found(call) if classified else {} for call in calls)
    records = [LateCall(call=call, v=2, ended=time.time(), **more) for call, more in zip(calls, found, strict=True)]
    with Path(gate.spool.path).open("ab") as file:
        file.writelines(written(to_builtins(record)) + b"\n" for record in records)


def held(gate: LocalGate, *keys: str) -> set[str]:
    return {key for key in keys if gate.pending.hold(Scope("default", "asks", (Key(key),)), "Edit")}


def kinds(decision: Decision) -> set[Kind]:
    return {conflict.kind for conflict in decision.conflicts}


@pytest.mark.parametrize("classified", [True, False])
def test_32_a5_full_spool_enters_in_pages_and_delays_no_call_that_it_is_not_about(
    gate: LocalGate, monkeypatch: pytest.MonkeyPatch, classified: bool
) -> None:
    fill(gate, *map(edit, range(RECORDS)), classified=classified)
    pages: list[int] = []
    transact = gate.store.transact

    def write(requests: Sequence[Request]) -> list[Applied | Exception]:
        pages.append(len(requests))
        return transact(requests)

    monkeypatch.setattr(gate.store, "transact", write)
    assert gate.intercept(edit(-1)).verdict is Verdict.ALLOW
    assert pages == [2 * MAX_PAGE, 1], "a decision that no record is about enters one page"
    times = [time.process_time()]
    assert not held(gate, "file:/srv/5/new.py")
    times.append(time.process_time())
    assert Kind.STALE in kinds(gate.intercept(edit(RECORDS // 2, "asks")))
    times.append(time.process_time())
    assert times[1] - times[0] < (times[2] - times[1]) / 10, "0.02 s beside 0.6 s"
    assert times[2] - times[1] < 6, "5 s for 20,000 records, of which it enters 3,000 or more"
    assert len(pages) <= RECORDS // MAX_PAGE + 4, "and the decisions"


async def test_32_a5_call_that_the_spool_is_about_waits_or_is_refused_and_others_do_not(
    gate: LocalGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(gate, edit(5), edit(8), PUSH)
    served = ServedGate(gate)
    never, soon = Expiry(None), Expiry(0.0, now=lambda: 0.0)

    async def ask(call: Call, expiry: Expiry = never) -> Decision:
        await served.take_in()
        return await served.drive(served.operations.intercept(call, expiry))

    try:
        with locked(Path(gate.settings.state, "late.lock"), wait=1) as mine:
            assert mine, "another process has the spool, and enters nothing"
            assert (await ask(edit(6, "asks"))).verdict is Verdict.ALLOW
            told = await ask(edit(5, "asks"), soon)
            assert (told.verdict, told.proceed) == (Verdict.WARN, True)
            assert "still being taken in" in (told.warning or "")
            with pytest.raises(StoreUnavailable, match="still being taken in"):
                await ask(replace(PUSH, instance="asks"), soon)
            with monkeypatch.context() as patched:
                patched.setattr(gate.pending, "hold", lambda *_: False)
                assert not kinds(await ask(edit(8, "control"))), "without a look at the spool it runs unwarned"
            waiting = asyncio.ensure_future(ask(edit(5, "other")))
            await ask(edit(7, "asks"))
            assert not waiting.done()
        assert Kind.STALE in kinds(await waiting), "it was decided with what the spool held"
    finally:
        await served.close()


def test_32_a5_no_call_slips_past_records_that_another_gate_is_entering(gate: LocalGate) -> None:
    with LocalGate(settings=gate.settings) as other, ThreadPoolExecutor(2) as threads:
        for number in range(0, 4000, 200):
            fill(gate, *map(edit, range(number, number + 200)))
            unrelated = threads.submit(gate.intercept, edit(-1, f"s{number}"))
            about = threads.submit(other.intercept, edit(number + 199, "asks"))
            assert Kind.STALE in kinds(about.result())
            assert unrelated.result().proceed


@pytest.mark.parametrize("classified", [True, False])
@pytest.mark.parametrize(
    ("call", "about"),
    [
        (edit(5), [ABOUT, "file:/srv/5/", "file:/"]),
        (edit(5, tool="Read"), [ABOUT, "file:/srv/"]),
        (Call("late", "Write", {"file_path": "../5/5.py", "content": "x."}, cwd="/srv/7"), [ABOUT]),
        (Call("late", "Write", {"file_path": "/srv/5/\u00e9.py", "content": ""}), ["file:/srv/5/\u00e9.py"]),
        (Call("late", "LS", {"path": "/srv/5"}), ["file:/srv/5/|names"]),
        (Call("late", "Bash", {"command": "cd /srv && rm -r 5"}), [ABOUT, "file:/srv/5/x"]),
        (Call("late", "send_email", {"to": "Ann <ANN@Example.com>", "text": "hello"}), ["email:ann@example.com"]),
        (Call("late", "batch", {"calls": [{"tool": "Edit", "arguments": {"file_path": "/srv/5/5.py"}}]}), []),
    ],
)
def test_pending_record_is_found_by_its_keys_and_trees(
    gate: LocalGate, call: Call, about: list[str], classified: bool
) -> None:
    fill(gate, call, *map(edit, range(100, 400)), classified=classified)
    keys = {*about, *(key.name for key in gate._found(call)["found"].keys)}
    assert held(gate, *keys, "file:/srv/7/5.pyc", "email:bob@example.com") == keys
    gate.take_in()
    assert not held(gate, *keys)


def test_pending_report_is_about_what_its_session_has_open(gate: LocalGate) -> None:
    opened = gate.intercept(PUSH)
    assert gate.keep(LateCall(call=Call("late", "?"), kind="report", v=2, id=opened.id, outcome=Outcome.DONE))
    assert held(gate, *opened.context_keys, ABOUT) == set(opened.context_keys)
