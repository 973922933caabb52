"""The bus: which handlers are called, in which order, and how one handler affects the others."""

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callosum.corpus import bus, fault_reports
from callosum.corpus.bus import Corpus
from callosum.corpus.events import (
    CATALOGUE,
    CorpusEvent,
    HealthWarning,
    LlmToken,
    SafetyBlocked,
    TaskFailed,
    ToolCompleted,
    ToolFailed,
    encode,
)
from callosum.errors import ConfigError
from tests.support.clocks import Clock
from tests.support.threads import all_at_once

DONE = ToolCompleted("github_prs", "3 open", 1204.0)
FAILED = ToolFailed("github_prs", "401")


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("tool.*", ["tool.completed", "tool.failed"]),
        ("*", ["tool.completed", "tool.failed", "safety.blocked", "llm.token"]),
        ("safety.*", ["safety.blocked"]),
        ("resource.low.*", []),
    ],
)
def test_a_handler_of_a_pattern_gets_the_name_and_the_event(corpus: Corpus, pattern: str, names: list[str]) -> None:
    seen: list[tuple[str, CorpusEvent]] = []
    corpus.on(pattern, lambda type, event: seen.append((type, event)))
    for event in (DONE, FAILED, SafetyBlocked("pay", "held"), LlmToken("a")):
        corpus.emit(event)
    assert [name for name, _ in seen] == names
    assert all(event.dotted == name for name, event in seen)


def test_a_handler_of_the_base_class_gets_everything(corpus: Corpus) -> None:
    seen: list[CorpusEvent] = []
    corpus.on(CorpusEvent, seen.append)
    corpus.emit(DONE)
    corpus.emit(LlmToken("a"))
    assert seen == [DONE, LlmToken("a", at=seen[1].at)]


def test_decorator_returns_the_function_unchanged(corpus: Corpus) -> None:
    seen: list[Any] = []

    @corpus.on(ToolCompleted)
    def by_class(event: ToolCompleted) -> str:
        seen.append(event)
        return event.name

    @corpus.on("tool.*")
    def by_pattern(type: str, event: CorpusEvent) -> None:
        seen.append(type)

    corpus.emit(DONE)
    corpus.emit(DONE)
    assert seen == [DONE, "tool.completed"] * 2
    assert by_class(DONE) == "github_prs"


def test_ahead_handler_sees_an_event_before_events_emitted_in_response(corpus: Corpus) -> None:
    ahead: list[str] = []
    behind: list[str] = []
    corpus.on(ToolCompleted, lambda event: corpus.emit(FAILED))
    corpus.on("*", lambda type, event: ahead.append(f"first {type}"), ahead=True)
    corpus.on("*", lambda type, event: ahead.append(f"second {type}"), ahead=True)
    corpus.on("*", lambda type, event: behind.append(type))
    corpus.emit(DONE)
    assert ahead == ["first tool.completed", "second tool.completed", "first tool.failed", "second tool.failed"]
    assert behind == ["tool.failed", "tool.completed"], "others are called in the order of subscription"


def test_off_ends_one_subscription_or_all(corpus: Corpus) -> None:
    seen: list[CorpusEvent] = []
    off = corpus.on(ToolCompleted, seen.append)
    off()
    off()
    corpus.emit(DONE)
    corpus.on(ToolCompleted, seen.append)
    corpus.on(ToolCompleted, seen.append)
    assert corpus.off(ToolCompleted, seen.append) == 2
    corpus.on("tool.*", lambda type, event: seen.append(event))
    assert corpus.off("tool.*") == 1
    assert corpus.off("tool.*") == 0
    corpus.emit(DONE)
    assert seen == []


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("tool.complete", "there is no event 'tool.complete'; did you mean 'tool.completed'?"),
        ("tols.*", "there is no event 'tols.*'; did you mean 'tool.*'?"),
        ("", "there is no event ''"),
        ("*.failed", "there is no event"),
        (int, "expected a class of events"),
        (None, "expected a class of events"),
    ],
)
def test_name_of_no_event_is_refused(corpus: Corpus, what: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=r"what: ") as error:
        corpus.on(what, lambda event: None)
    assert told in str(error.value)


def test_uncallable_handlers_and_non_events_are_refused(corpus: Corpus) -> None:
    with pytest.raises(TypeError, match="expected a function to call, got int"):
        corpus.on(ToolCompleted, 3)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="expected an event of the corpus, got dict"):
        corpus.emit({"name": "x"})  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="expected an event of the corpus, got str"):
        corpus.emit("tool.called")  # type: ignore[call-overload]


SEED: list[tuple[str, dict[str, Any]]] = [
    ("tool.called", {"name": "shell_exec", "args": {"command": "ls -la"}, "taskId": "TASK-42"}),
    ("health.warning", {"resource": "llm", "value": 6, "threshold": 5}),
    ("resource.low.context", {"used": 180_001, "max": 200_000}),
    ("health.warning", {"resource": "tool", "value": "shell_exec", "threshold": "max retries exceeded"}),
    ("task.completed", {"taskId": "TASK-42", "success": True, "totalDuration": 1820}),
    ("memory.saved", {"type": "episode", "path": "episodes/2026-05-16.md"}),
]
"""The events of the first version, in the form in which it emitted them."""


def test_event_is_emitted_by_its_dotted_name(corpus: Corpus) -> None:
    seen: list[tuple[str, CorpusEvent]] = []
    corpus.on("*", lambda type, event: seen.append((type, event)))
    for name, payload in SEED:
        corpus.emit(name, payload)
    assert [name for name, _ in seen] == [name for name, _ in SEED]
    for (_, event), (_, payload) in zip(seen, SEED, strict=True):
        told = msgspec.json.decode(encode(event))
        assert told.pop("at") == event.at
        assert told == payload


def test_an_event_by_name_reaches_the_handlers_of_its_class(corpus: Corpus) -> None:
    seen: list[ToolCompleted] = []
    corpus.on(ToolCompleted, seen.append)
    corpus.emit("tool.completed", {"name": "github_prs", "output": "3 open", "duration": 1204, "at": DONE.at})
    assert seen == [DONE]


@pytest.mark.parametrize(
    ("name", "payload", "told"),
    [
        ("tool.calld", {}, "type: there is no event 'tool.calld'; did you mean 'tool.called'?"),
        ("tool.called", {"name": "a"}, "args: "),
        ("tool.called", {"name": 3, "args": {}}, "name: Expected `str`, got `int`"),
        ("tool.called", {"name": "a", "args": {}, "task_id": "T"}, "task_id: tool.called has no such field; did you mean 'taskId'?"),
        ("resource.low.disk", {"used": -1, "max": 2}, "used: Expected `int` >= 0"),
    ],
)  # fmt: skip
def test_wrong_payload_is_refused_at_the_field(corpus: Corpus, name: str, payload: dict[str, Any], told: str) -> None:
    seen: list[CorpusEvent] = []
    corpus.on(CorpusEvent, seen.append)
    with pytest.raises(ConfigError) as error:
        corpus.emit(name, payload)
    assert str(error.value).startswith(told)
    assert not seen


def test_a_closed_corpus_takes_no_handler_and_calls_none() -> None:
    seen: list[CorpusEvent] = []
    corpus = Corpus()
    corpus.on(ToolCompleted, seen.append)
    corpus.close()
    corpus.close()
    corpus.emit(DONE)
    with pytest.raises(RuntimeError, match="closed"):
        corpus.on(ToolCompleted, seen.append)
    assert seen == []


def test_a_handler_may_unsubscribe_all_others(corpus: Corpus) -> None:
    """The current emit keeps its handlers; the next one has the new list."""
    seen: list[int] = []

    def first(event: ToolCompleted) -> None:
        seen.append(1)
        corpus.off(ToolCompleted)

    corpus.on(ToolCompleted, first)
    corpus.on(ToolCompleted, lambda event: seen.append(2))
    corpus.emit(DONE)
    corpus.emit(DONE)
    assert seen == [1, 2]


def test_a_handler_may_subscribe(corpus: Corpus) -> None:
    seen: list[int] = []
    corpus.on(ToolCompleted, lambda event: corpus.on(ToolCompleted, lambda event: seen.append(1)))
    corpus.emit(DONE)
    assert seen == []
    corpus.emit(DONE)
    assert seen == [1]


def test_a_handler_may_emit(corpus: Corpus) -> None:
    order: list[str] = []
    corpus.on(ToolCompleted, lambda event: corpus.emit(FAILED))
    corpus.on(ToolFailed, lambda event: order.append("failed"))
    corpus.on(ToolCompleted, lambda event: order.append("completed"))
    corpus.emit(DONE)
    assert order == ["failed", "completed"]


def test_handler_that_answers_itself_without_end_is_stopped_and_reported(corpus: Corpus) -> None:
    count = 0
    warnings = _warnings(corpus)

    def answer(event: ToolCompleted) -> None:
        nonlocal count
        count += 1
        corpus.emit(DONE)

    corpus.on(ToolCompleted, answer)
    corpus.emit(DONE)
    assert count == bus.DEPTH + 1
    assert [(one.resource, one.value) for one in warnings] == [("corpus.recursion", "tool.completed")]
    corpus.emit(DONE)
    assert count == 2 * (bus.DEPTH + 1)


def test_handler_that_answers_itself_twice_each_time_is_stopped(corpus: Corpus) -> None:
    """Two to the power of the depth would never end."""
    count = 0

    def answer(event: ToolCompleted) -> None:
        nonlocal count
        count += 1
        corpus.emit(DONE)
        corpus.emit(DONE)

    corpus.on(ToolCompleted, answer)
    corpus.emit(DONE)
    assert count <= 2 * bus.NESTED + 2


def test_handler_that_raises_is_reported_and_the_others_run(corpus: Corpus, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[CorpusEvent] = []
    warnings = _warnings(corpus)

    def broken(event: ToolCompleted) -> None:
        raise ValueError("no")

    corpus.on(ToolCompleted, broken)
    corpus.on(ToolCompleted, seen.append)
    with caplog.at_level(logging.WARNING, "callosum"):
        for _ in range(3):
            corpus.emit(DONE)
    assert seen == [DONE] * 3
    assert len(warnings) == 1, "the same fault is not told again and again"
    assert warnings[0].resource == "corpus.handler"
    assert str(warnings[0].value).endswith("broken")
    assert "ValueError('no')" in caplog.text


def test_unreported_faults_are_counted(
    corpus: Corpus, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr("callosum.corpus.fault_reports.time.monotonic", clock)
    corpus.on(ToolCompleted, lambda event: 1 / 0)
    with caplog.at_level(logging.WARNING, "callosum"):
        for _ in range(5):
            corpus.emit(DONE)
        clock.now += fault_reports.REPORT_EVERY
        corpus.emit(DONE)
    assert "(4 more since the last report)" in caplog.text


def test_a_handler_of_warnings_that_raises_does_not_answer_itself(corpus: Corpus) -> None:
    count = 0

    def broken(event: HealthWarning) -> None:
        nonlocal count
        count += 1
        raise ValueError

    corpus.on(HealthWarning, broken)
    corpus.on(ToolCompleted, lambda event: 1 / 0)
    corpus.emit(DONE)
    assert count == 1


def test_exception_that_ends_the_process_passes_through(corpus: Corpus) -> None:
    def leave(event: ToolCompleted) -> None:
        raise SystemExit(3)

    corpus.on(ToolCompleted, leave)
    with pytest.raises(SystemExit):
        corpus.emit(DONE)
    seen: list[CorpusEvent] = []
    corpus.on(ToolFailed, seen.append)
    corpus.emit(FAILED)
    assert seen == [FAILED]


def test_async_handler_that_answers_itself_is_stopped(corpus: Corpus) -> None:
    count, stopped, warnings = [0], threading.Event(), _warnings(corpus)
    corpus.on("health.warning", lambda event: stopped.set())

    @corpus.on(LlmToken)
    async def answer(event: LlmToken) -> None:
        await asyncio.sleep(0)
        count[0] += 1
        corpus.emit(LlmToken("again"))

    corpus.emit(LlmToken("first"))
    assert stopped.wait(20)
    assert corpus.flush()
    assert count[0] == bus.DEPTH
    assert warnings[0].resource == "corpus.recursion"


def test_forked_child_keeps_working() -> None:
    script = """
import os, sys, threading
from callosum.corpus.bus import Corpus
from callosum.corpus.events import LlmToken
corpus = Corpus()
seen = []
corpus.on(LlmToken, lambda event: seen.append(event.delta))
@corpus.on(LlmToken)
async def later(event): seen.append("async")
corpus.emit(LlmToken("parent"))
assert corpus.flush(10)
corpus._guard.acquire()
pid = os.fork()
if pid == 0:
    seen.clear()
    corpus.emit(LlmToken("child"))
    assert corpus.flush(10)
    print(sorted(seen))
    sys.stdout.flush()
    os._exit(0)
_, status = os.waitpid(pid, 0)
sys.exit(status >> 8)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['async', 'child']"


def test_an_event_emitted_as_a_loop_ends_does_not_silence_the_handler(corpus: Corpus) -> None:
    """The handler is scheduled on the running loop, and cancelled before its first step."""
    seen: list[str] = []

    async def handler(event: LlmToken) -> None:
        seen.append(event.delta)

    corpus.on(LlmToken, handler)

    async def main(delta: str) -> None:
        corpus.emit(LlmToken(delta))

    asyncio.run(main("lost"))
    corpus.emit(LlmToken("kept"))
    assert corpus.flush()
    assert seen[-1:] == ["kept"]


async def test_an_async_handler_runs_on_the_loop_in_which_it_was_subscribed(corpus: Corpus) -> None:
    seen: list[tuple[str, asyncio.AbstractEventLoop]] = []

    async def handler(event: ToolCompleted) -> None:
        await asyncio.sleep(0)
        seen.append((event.name, asyncio.get_running_loop()))

    corpus.on(ToolCompleted, handler)
    corpus.emit(DONE)
    assert seen == [], "it is scheduled, not run"
    await asyncio.to_thread(corpus.emit, DONE)
    assert await asyncio.to_thread(corpus.flush)
    assert seen == [("github_prs", asyncio.get_running_loop())] * 2


def test_an_async_handler_without_a_loop_gets_one(corpus: Corpus) -> None:
    seen: list[str] = []

    @corpus.on("tool.*")
    async def handler(type: str, event: CorpusEvent) -> None:
        await asyncio.sleep(0)
        seen.append(type)

    for _ in range(10):
        corpus.emit(DONE)
    assert corpus.flush()
    assert seen == ["tool.completed"] * 10


def test_an_async_handler_that_fails_is_reported(corpus: Corpus) -> None:
    warnings = _warnings(corpus)

    async def broken(event: ToolCompleted) -> None:
        await asyncio.sleep(0)
        raise ValueError("later")

    corpus.on(ToolCompleted, broken)
    corpus.emit(DONE)
    assert corpus.flush()
    assert [one.resource for one in warnings] == ["corpus.handler"]


def test_an_async_handler_on_a_closed_loop_is_reported_and_harms_nobody(corpus: Corpus) -> None:
    warnings = _warnings(corpus)
    seen: list[object] = []

    async def late(event: ToolCompleted) -> None:
        seen.append(event)

    async def subscribe() -> None:
        corpus.on(ToolCompleted, late)

    asyncio.run(subscribe())
    corpus.on(ToolCompleted, lambda event: seen.append("next"))
    corpus.emit(DONE)
    corpus.emit(DONE)
    assert seen == ["next", "next"]
    assert [one.resource for one in warnings] == ["corpus.handler"]
    assert corpus.flush()


def test_loop_may_end_while_its_handler_runs(corpus: Corpus) -> None:
    async def main() -> None:
        started = asyncio.Event()

        async def endless(event: ToolCompleted) -> None:
            started.set()
            await asyncio.Event().wait()

        corpus.on(ToolCompleted, endless)
        corpus.emit(DONE)
        await started.wait()

    asyncio.run(main())
    assert corpus.flush()
    corpus.emit(DONE)


def test_threads_emit_subscribe_and_unsubscribe_together(corpus: Corpus) -> None:
    always: list[CorpusEvent] = []
    corpus.on(ToolCompleted, always.append)
    warnings = _warnings(corpus)

    def work() -> None:
        mine: list[CorpusEvent] = []
        for _ in range(300):
            off = corpus.on(ToolCompleted, mine.append)
            before = len(mine)
            corpus.emit(DONE)
            assert len(mine) > before, "what was emitted after it subscribed reaches it"
            off()

    all_at_once([work] * 6)
    assert len(always) == 6 * 300
    assert warnings == []
    assert corpus.handlers(ToolCompleted) == 1


@given(st.lists(st.tuples(st.sampled_from(["on", "off", "emit"]), st.integers(0, 3), st.integers(0, 5)), max_size=60))
def test_bus_calls_the_same_handlers_as_a_reference_model(steps: list[tuple[str, int, int]]) -> None:
    """Compare the bus with the simplest model of it: a list that is walked."""
    whats: list[Any] = [ToolCompleted, "tool.*", "*", "tool.failed"]
    model: list[tuple[int, int]] = []
    expected: list[int] = []
    seen: list[int] = []
    functions: list[Callable[..., None]] = [_noting(seen, number) for number in range(6)]
    fits = {0: {"tool.completed"}, 1: {"tool.completed", "tool.failed"}, 2: set(CATALOGUE), 3: {"tool.failed"}}
    events: list[CorpusEvent] = [DONE, FAILED, LlmToken("a"), TaskFailed("t", "e", 1)]
    with Corpus() as corpus:
        for step, what, function in steps:
            if step == "off":
                corpus.off(whats[what], functions[function])
                model = [one for one in model if one != (what, function)]
            elif step == "emit":
                event = events[what]
                expected += [one[1] for one in model if event.dotted in fits[one[0]]]
                corpus.emit(event)
            else:
                corpus.on(whats[what], functions[function])
                model.append((what, function))
    assert seen == expected


def test_a_new_event_is_one_class(corpus: Corpus) -> None:
    """Handlers of all events get it without further wiring."""
    seen: list[str] = []
    corpus.on("*", lambda type, event: seen.append(type))
    corpus.emit(DONE)
    try:

        class WeatherChanged(CorpusEvent, frozen=True):
            """It rains."""

            dotted = "weather.changed"
            region = "test"

            sky: str

        corpus.on("weather.*", lambda type, event: seen.append(event.sky))
        corpus.emit(WeatherChanged("grey"))
    finally:
        CATALOGUE.pop("weather.changed", None)
    assert seen == ["tool.completed", "weather.changed", "grey"]


def _warnings(corpus: Corpus) -> list[HealthWarning]:
    found: list[HealthWarning] = []
    corpus.on(HealthWarning, found.append)
    return found


def _noting(seen: list[int], number: int) -> Callable[..., None]:
    def handler(*_: object) -> None:
        seen.append(number)

    return handler
