"""Tell of runs that outlast their tool call: a host's sub-agents and background commands, as ``task.*`` events.

::

    Agent (toolu_7)    tool.called, task.created, task.started       the task is called as the call is: toolu_7
      its sub-agent    tool.called ... tool.completed, task.stepCompleted       each of its calls is a step
    SubagentStop       tool.completed, task.completed

A call that begins such a run for certain is a task from its decision on; another becomes one when the host says that
it goes on behind the answer. To-do lists and schedulers' jobs are no runs, and so no tasks.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from callosum.corpus.events import (
    CorpusEvent,
    TaskCompleted,
    TaskCreated,
    TaskFailed,
    TaskStarted,
    TaskStepCompleted,
    TaskStopped,
)
from callosum.hosts.events import HostSession
from callosum.hosts.payload import kept
from callosum.model import Outcome

_STOPPED: Final = "stopped by its session"
NOT_RUN: Final = "it was not run"
SESSION_ENDED: Final = "its session ended"


class OpenCall(NamedTuple):
    """A call that may run and is not reported. ``began`` is on the clock of ``time.monotonic``.

    ``task`` is its name as a task, "" as long as it is none; ``agents``: it starts sub-agents.
    """

    id: int
    tool: str
    inform: str
    tier: int = 0
    call_id: str | None = None
    task: str = ""
    agents: bool = False
    began: float = 0.0


class TaskReporter:
    """Tells of the tasks of all sessions. ``tell`` hands an event to the corpus, in order with what the gate tells."""

    def __init__(self, tell: Callable[[CorpusEvent], object]) -> None:
        self._tell = tell

    def begun(self, actor: HostSession, call: OpenCall) -> None:
        """Tell that a call began a task."""
        self._tell(TaskCreated(call.task, call.tool, **_whose(actor, call.call_id)))
        self._tell(TaskStarted(call.task, 1, **_whose(actor, call.call_id)))

    def stepped(self, actor: HostSession, step: OpenCall) -> None:
        """Tell that a call within a task is done; ``step.task`` names the task."""
        self._tell(TaskStepCompleted(step.task, step.tool, _since(step), **_whose(actor, step.call_id)))

    def ended(self, actor: HostSession, call: OpenCall, outcome: Outcome, *, error: str = "", why: str = "") -> None:
        """Tell how a task ended; ``why`` says who stopped it."""
        whose = _whose(actor, call.call_id)
        if outcome is Outcome.DONE:
            self._tell(TaskCompleted(call.task, True, _since(call), **whose))
        elif outcome is Outcome.FAILED:
            self._tell(TaskFailed(call.task, kept(error or "failed"), 1, **whose))
            self._tell(TaskCompleted(call.task, False, _since(call), **whose))
        else:
            reason = why or (NOT_RUN if outcome is Outcome.CANCELLED else _STOPPED)
            self._tell(TaskStopped(call.task, reason, **whose))


def _whose(actor: HostSession, call_id: str | None) -> dict[str, Any]:
    return {"instance": actor.name, "namespace": actor.namespace, "call_id": call_id}


def _since(call: OpenCall) -> float:
    return round((time.monotonic() - call.began) * 1000, 3)
