"""Report work that outlasts its tool call, a host's sub-agents and background commands, as ``task.*`` events.

::

    Agent (toolu_7)    tool.called, task.created, task.started       the task has the call's id: toolu_7
      its sub-agent    tool.called ... tool.completed, task.stepCompleted       each of its calls is a step
    SubagentStop       tool.completed, task.completed

A call that certainly starts such work is a task from its decision on. Another call becomes a task when the host says
that it continues after its result. To-do lists and scheduled jobs are not tasks.
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
    """Describe a call that may run and has no report yet.

    ``task`` is the name of the call's task, or "" if it is no task. ``agents`` is True if the call starts sub-agents.
    ``began`` is a time of ``time.monotonic``.
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
    """Emit the task events of all sessions.

    ``tell`` hands an event to the corpus, in order with the events that the gate emits.
    """

    def __init__(self, tell: Callable[[CorpusEvent], object]) -> None:
        self._tell = tell

    def begun(self, actor: HostSession, call: OpenCall) -> None:
        """Report that a call started a task."""
        self._tell(TaskCreated(call.task, call.tool, **_whose(actor, call.call_id)))
        self._tell(TaskStarted(call.task, 1, **_whose(actor, call.call_id)))

    def stepped(self, actor: HostSession, step: OpenCall) -> None:
        """Report that a call within a task is done. ``step.task`` names the task."""
        self._tell(TaskStepCompleted(step.task, step.tool, _since(step), **_whose(actor, step.call_id)))

    def ended(self, actor: HostSession, call: OpenCall, outcome: Outcome, *, error: str = "", why: str = "") -> None:
        """Report how a task ended. ``why`` says what stopped it."""
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
