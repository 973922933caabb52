"""Motor: runs a tool under the gate with attempts and steps, and emits an event for each of them.

A **task** is one guarded run of a tool. Its life on the corpus::

    task.created
    task.started (attempt 1)      tool.called, safety.allowed
      task.stepCompleted ...
                                  tool.failed (attempt 1)
    task.started (attempt 2)      tool.called, safety.allowed
                                  tool.completed
    task.completed (success)

Each attempt is a separate call with its own decision, so what another session did in between counts. A call that
certainly failed is tried again. A call that may have happened (a timeout, a lost connection) is not, unless it only
reads.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from msgspec.structs import replace
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential, wait_random

from callosum.corpus.bus import Corpus
from callosum.corpus.events import (
    CorpusEvent,
    TaskCompleted,
    TaskCreated,
    TaskFailed,
    TaskStarted,
    TaskStepCompleted,
    TaskStopped,
)
from callosum.errors import Blocked, CallosumError, ConfigError, GateUnavailable
from callosum.gate import Gate
from callosum.guards import guard, outcome_of_error
from callosum.model import Call, Decision, Outcome
from callosum.redact import redact_text

_LONGEST: Final = 500

R = TypeVar("R")


class Stopped(CallosumError):
    """The task was stopped from outside, with this reason."""


class Task:
    """A guarded run, as the work inside it sees it.

    ``id`` is its name, ``attempt`` counts from 1, ``decision`` is the gate's decision for this attempt.
    """

    def __init__(self, corpus: Corpus, call: Call, id: str) -> None:
        self.id = id
        self.call = call
        self.attempt = 0
        self.decision: Decision | None = None
        self.stopped: str | None = None
        self._corpus = corpus
        self._bell = threading.Event()

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Run a part of the work; emit ``task.stepCompleted`` with its duration unless it raises.

        Raises ``Stopped`` before it begins if the task was stopped.
        """
        self.check()
        began = time.perf_counter()
        yield
        self.emit(TaskStepCompleted, name, _milliseconds(began))

    def check(self) -> None:
        """Raise ``Stopped`` if the task was stopped. Long work calls it from time to time."""
        if self.stopped is not None:
            raise Stopped(self.stopped)

    def stop(self, reason: str) -> None:
        """Stop the task before its next step or attempt. May be called from any thread; the first reason is kept."""
        if self.stopped is None:
            self.stopped = reason
            self._bell.set()

    def emit(self, kind: Callable[..., CorpusEvent], *facts: Any) -> None:
        """Emit an event of this task."""
        call = self.call
        self._corpus.emit(kind(self.id, *facts, instance=call.actor, namespace=call.namespace, call_id=call.call_id))

    def rest(self, seconds: float) -> None:
        """Wait between two attempts, until the task is stopped."""
        self._bell.wait(seconds)


class Motor:
    """Run tools under ``gate``. Its events ``tool.*`` are derived from what the gate journals."""

    def __init__(self, corpus: Corpus, gate: Gate | None = None) -> None:
        self._corpus = corpus
        self._gate = gate
        self._tasks: dict[str, Task] = {}
        self._guard = threading.RLock()

    # --- running -------------------------------------------------------------------------------------

    def run(
        self,
        call: Call,
        work: Callable[[Task], R],
        *,
        attempts: int = 3,
        backoff: float = 1.0,
        longest: float = 30.0,
        task_id: str | None = None,
    ) -> R:
        """Run ``work`` under the gate, up to ``attempts`` times, and return its result.

        Between attempts it waits ``backoff`` seconds, then twice that and so on, at most ``longest``, with some jitter.
        Raises the error of the last attempt; ``Blocked``, ``GateUnavailable`` and ``Stopped`` are raised at once,
        because they are answers and not failures.
        """
        task = self._begin(call, attempts, backoff, longest, task_id)
        began = time.perf_counter()
        try:
            for attempt in Retrying(**_policy(task, attempts, backoff, longest), sleep=task.rest):
                with attempt:
                    with guard(self._running(), self._next(task)) as running:
                        task.decision = running.decision
                        running.result = result = work(task)
                    self._end(task, began)
                    return result
        except BaseException as error:
            self._fail(task, began, error)
            raise
        raise AssertionError("an attempt returns or raises")  # pragma: no cover

    def stop(self, task_id: str, reason: str) -> bool:
        """Stop a running task before its next step or attempt; return False if there is no such task."""
        with self._guard:
            task = self._tasks.get(task_id)
        if task is None:
            return False
        task.stop(reason)
        return True

    def close(self) -> None:
        """Stop all tasks. Idempotent."""
        with self._guard:
            tasks = list(self._tasks.values())
        for task in tasks:
            task.stop("Motor is closed")

    # --- inside --------------------------------------------------------------------------------------

    def _running(self) -> Gate:
        if self._gate is None:
            raise ConfigError("a gate is needed to run tools", at="gate")
        return self._gate

    def _begin(self, call: Call, attempts: int, backoff: float, longest: float, task_id: str | None) -> Task:
        self._running()
        if attempts < 1:
            raise ConfigError(f"expected at least 1, got {attempts!r}", at="attempts")
        for value, at in ((backoff, "backoff"), (longest, "longest")):
            if not value >= 0:
                raise ConfigError(f"expected seconds, got {value!r}", at=at)
        id = task_id or call.task_id or f"task-{uuid.uuid4().hex[:12]}"
        task = Task(self._corpus, replace(call, task_id=id, call_id=call.call_id or id), id)
        with self._guard:
            if id in self._tasks:
                raise ConfigError(f"the task {id} is running already", at="task_id")
            self._tasks[id] = task
        task.emit(TaskCreated, call.tool)
        return task

    def _next(self, task: Task) -> Call:
        """Return the call of the next attempt, under an id of its own."""
        task.check()
        task.attempt += 1
        task.emit(TaskStarted, task.attempt)
        if task.attempt == 1:
            return task.call
        return replace(task.call, call_id=f"{task.call.call_id}#{task.attempt}"[-256:], attempt=task.attempt)

    def _end(self, task: Task, began: float) -> None:
        self._forget(task)
        task.emit(TaskCompleted, True, _milliseconds(began))

    def _fail(self, task: Task, began: float, error: BaseException) -> None:
        self._forget(task)
        if isinstance(error, Blocked | GateUnavailable | Stopped) or not isinstance(error, Exception):
            task.emit(TaskStopped, _words(error))
            return
        task.emit(TaskFailed, _words(error), task.attempt)
        task.emit(TaskCompleted, False, _milliseconds(began))

    def _forget(self, task: Task) -> None:
        with self._guard:
            self._tasks.pop(task.id, None)


def _policy(task: Task, attempts: int, backoff: float, longest: float) -> dict[str, Any]:
    """Return the retry policy in tenacity's terms."""
    return {
        "stop": stop_after_attempt(attempts),
        "wait": wait_exponential(multiplier=backoff, max=longest) + wait_random(0, backoff / 2),
        "retry": retry_if_exception(lambda error: _may_repeat(task, error)),
        "reraise": True,
    }


def _may_repeat(task: Task, error: BaseException) -> bool:
    """Return True if another attempt can do no harm: this one certainly failed, or the call only reads."""
    if isinstance(error, CallosumError) or not isinstance(error, Exception):
        return False
    return outcome_of_error(error) is Outcome.FAILED or (task.decision is not None and task.decision.tier == 0)


def _words(error: BaseException) -> str:
    text = str(error) if isinstance(error, CallosumError) else f"{type(error).__name__}: {error}"
    return redact_text(text[:_LONGEST])


def _milliseconds(began: float) -> float:
    return round((time.perf_counter() - began) * 1000, 3)
