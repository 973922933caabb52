"""Motor: tasks under the gate, and the events of every call."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callosum.corpus.bus import Corpus
from callosum.corpus.entry_events import OpeningCalls
from callosum.corpus.events import CorpusEvent
from callosum.errors import Blocked, ConfigError, GateUnavailable, StoreUnavailable
from callosum.model import Call, Observation
from callosum.regions.execution import Motor, Stopped, Task
from tests.support.world import World, gate_time

CALL = Call("mira", "act1", {"on": "plan"}, session="chat")


class TaskGate:
    """A gate, a corpus with Motor, and all emitted events."""

    def __init__(self, folder: Path) -> None:
        self.world = World(folder)
        self.corpus = Corpus()
        self.motor = Motor(self.corpus, self.world.gate)
        self.calls = OpeningCalls()
        self.world.gate.add_observer(self._observe)
        self.told: list[CorpusEvent] = []
        self.corpus.on(CorpusEvent, self.told.append)

    def _observe(self, seen: Observation) -> None:
        for entry in seen.entries:
            for event in self.calls.events_of(entry):
                self.corpus.emit(event)

    def names(self) -> list[str]:
        return [event.dotted for event in self.told]

    def of(self, name: str) -> list[Any]:
        return [event for event in self.told if event.dotted == name]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[TaskGate]:
    made = TaskGate(tmp_path)
    with gate_time(made.world.clock):
        yield made
    made.corpus.close()
    made.world.gate.close()


def test_completed_task_emits_its_events(stage: TaskGate) -> None:
    def work(task: Task) -> str:
        with task.step("fetch"):
            pass
        assert task.decision is not None
        return "3 open"

    assert stage.motor.run(CALL, work, task_id="TASK-42") == "3 open"
    assert stage.names() == [
        "task.created",
        "task.started",
        "tool.called",
        "safety.allowed",
        "task.stepCompleted",
        "tool.completed",
        "task.completed",
    ]
    assert {event.task_id for event in stage.told if hasattr(event, "task_id")} == {"TASK-42"}
    assert {event.instance for event in stage.told} == {"mira/chat"}
    assert stage.of("tool.completed")[0].output == "3 open"
    assert stage.of("task.completed")[0].success is True
    assert stage.of("task.stepCompleted")[0].step == "fetch"


def test_certain_failure_is_retried_as_another_call(stage: TaskGate) -> None:
    def work(task: Task) -> int:
        if task.attempt < 3:
            raise ValueError("not yet")
        return task.attempt

    assert stage.motor.run(CALL, work, attempts=3, backoff=0) == 3
    assert [event.attempt for event in stage.of("task.started")] == [1, 2, 3]
    assert [(event.attempt, event.task_id is not None) for event in stage.of("tool.failed")] == [(1, True), (2, True)]
    calls = [event.call_id for event in stage.of("tool.called")]
    assert len(set(calls)) == 3
    assert calls[1] == f"{calls[0]}#2"
    assert [event.call_id for event in stage.of("tool.failed")] == calls[:2]
    assert stage.of("task.completed")[0].success is True


def test_task_is_given_up_after_its_last_attempt(stage: TaskGate) -> None:
    def work(task: Task) -> None:
        raise ValueError("no: password=hunter2hunter2")

    with pytest.raises(ValueError, match="no"):
        stage.motor.run(CALL, work, attempts=2, backoff=0)
    (failed,) = stage.of("task.failed")
    assert failed.attempts == 2
    assert failed.error == "ValueError: no: password=[redacted]"
    assert [event.success for event in stage.of("task.completed")] == [False]


@pytest.mark.parametrize("error", [TimeoutError("read"), ConnectionResetError()])
def test_possible_success_is_not_retried(stage: TaskGate, error: Exception) -> None:
    def work(task: Task) -> None:
        raise error

    with pytest.raises(type(error)):
        stage.motor.run(CALL, work, attempts=5, backoff=0)
    assert len(stage.of("task.started")) == 1


def test_read_is_retried_in_any_case(stage: TaskGate) -> None:
    def work(task: Task) -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        stage.motor.run(Call("mira", "look", {"on": "plan"}), work, attempts=3, backoff=0)
    assert len(stage.of("task.started")) == 3


def test_task_that_the_gate_blocks_is_stopped(stage: TaskGate) -> None:
    with pytest.raises(Blocked):
        stage.motor.run(Call("mira", "never", {"on": "plan"}), lambda task: None)
    assert stage.names()[:4] == ["task.created", "task.started", "tool.called", "safety.blocked"]
    (stopped,) = stage.of("task.stopped")
    assert stopped.reason == stage.of("safety.blocked")[0].reason
    assert not stage.of("task.failed")


def test_unreachable_gate_stops_the_task(stage: TaskGate, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> Any:
        raise StoreUnavailable("locked")

    monkeypatch.setattr(stage.world.store, "transact", away)
    with pytest.raises(GateUnavailable):
        stage.motor.run(Call("mira", "act3", {"on": "plan"}), lambda task: None)
    assert stage.names() == ["task.created", "task.started", "task.stopped"]


def test_task_is_stopped_between_two_steps(stage: TaskGate) -> None:
    def work(task: Task) -> None:
        with task.step("first"):
            assert stage.motor.stop("T", "the user changed their mind")
        with task.step("second"):
            raise AssertionError("never")

    with pytest.raises(Stopped, match="the user changed their mind"):
        stage.motor.run(CALL, work, task_id="T")
    assert [event.reason for event in stage.of("task.stopped")] == ["the user changed their mind"]
    assert not stage.motor.stop("T", "again")


def test_task_is_stopped_during_a_pause_before_a_retry(stage: TaskGate) -> None:
    failed = threading.Event()
    stage.corpus.on("tool.failed", lambda event: failed.set())

    def work(task: Task) -> None:
        raise ValueError

    def stop() -> None:
        assert failed.wait(10)
        stage.motor.close()

    stopper = threading.Thread(target=stop)
    stopper.start()
    with pytest.raises(Stopped, match="Motor is closed"):
        stage.motor.run(CALL, work, attempts=5, backoff=300, longest=600)
    stopper.join()
    assert len(stage.of("task.started")) == 1


@pytest.mark.parametrize(
    ("options", "at"),
    [({"attempts": 0}, "attempts"), ({"backoff": -1}, "backoff"), ({"longest": float("nan")}, "longest")],
)
def test_bad_options_are_named(stage: TaskGate, options: dict[str, Any], at: str) -> None:
    with pytest.raises(ConfigError) as error:
        stage.motor.run(CALL, lambda task: None, **options)
    assert error.value.at == at
    assert stage.told == []


def test_motor_without_a_gate_only_emits(stage: TaskGate) -> None:
    with pytest.raises(ConfigError, match="gate"):
        Motor(stage.corpus).run(CALL, lambda task: None)


def test_one_id_is_one_task(stage: TaskGate) -> None:
    def work(task: Task) -> None:
        with pytest.raises(ConfigError, match="T is running already"):
            stage.motor.run(CALL, lambda task: None, task_id="T")

    stage.motor.run(CALL, work, task_id="T")


def test_answers_of_people_and_late_reports_emit_events(stage: TaskGate) -> None:
    asked = stage.world.ask("mira", "asked", "plan")
    stage.world.gate.approve(asked.id, by="anna", channel="console")
    assert stage.names() == ["tool.called", "safety.blocked", "safety.approved"]
    assert stage.of("safety.approved")[0].channel_id == "console"
