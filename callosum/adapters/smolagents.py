"""smolagents: ``install`` for every agent of the process.

::

    install(gate)

smolagents has no hook for tools, so this replaces ``Tool.__call__`` and the call of a managed agent. Agents that call
tools use them, and so do agents that write code for this process's executor. They are not official extension points;
each version is tested.

smolagents has no conversation: pass ``session=``, otherwise the process is the session. A refusal is the tool's result:
only the sentence. In an agent that writes code the refusal is raised, so that the code does not continue as if the tool
had run. The gate does not see that code itself, nor anything that runs in a remote executor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from typing import Any, Final, NamedTuple, TypeVar, Unpack

from smolagents import CodeAgent, FinalAnswerTool, MultiStepAgent, Tool, local_python_executor

from callosum.adapters._seams import put
from callosum.adapters.core import Adapter, Attempt, FrameworkCall, Options, Refused
from callosum.errors import Blocked, GateUnavailable
from callosum.gate import Gate

T = TypeVar("T")

_OWN: Final = "sanitize_inputs_outputs"
"""An argument of ``Tool.__call__`` that does not belong to the tool."""


class _Step(NamedTuple):
    """A step of an agent: what its model reads, and whether it writes code."""

    messages: Iterable[Any]
    code: bool


_step: ContextVar[_Step | None] = ContextVar("callosum_smolagents_step", default=None)
_agent_call = MultiStepAgent.__call__
_tool_call = Tool.__call__
_write_memory = MultiStepAgent.write_memory_to_messages


def install(gate: Gate, **options: Unpack[Options]) -> Callable[[], None]:
    """Put the gate around every tool of this process's agents. Return a function that removes it.

    Another call replaces the gate. ``options`` are those of ``callosum.adapters.core.Options``.
    """
    adapter = Adapter(gate, **options)

    def call_tool(self: Tool, *args: Any, **kwargs: Any) -> Any:
        if isinstance(self, FinalAnswerTool):
            return _tool_call(self, *args, **kwargs)
        given = {name: value for name, value in kwargs.items() if name != _OWN}
        seen = FrameworkCall(
            tool=self.name,
            params=_params(self, args, given),
            texts=_read(),
            description=self.description,
            schema={"type": "object", "properties": self.inputs},
        )

        def tool(params: Mapping[str, Any] | None) -> Any:
            if params is None:
                return _tool_call(self, *args, **kwargs)
            return _tool_call(self, **params, sanitize_inputs_outputs=kwargs.get(_OWN, False))

        return adapter.run(_Call(seen), tool)

    def call_agent(self: MultiStepAgent, task: str, **kwargs: Any) -> Any:
        given = {"task": task, **kwargs}
        seen = FrameworkCall(
            tool=self.name or type(self).__name__, params=given, texts=_read(), description=self.description
        )
        step = _step.get()
        try:
            return adapter.run(_Call(seen), lambda params: _agent_call(self, **(given if params is None else params)))
        finally:
            _step.set(step)

    def write_memory_to_messages(self: MultiStepAgent, *args: Any, **kwargs: Any) -> Any:
        messages = _write_memory(self, *args, **kwargs)
        if not args and not kwargs:  # a step begins; otherwise the agent makes a plan or a summary
            _step.set(_Step(messages, isinstance(self, CodeAgent)))
        return messages

    seams: dict[tuple[Any, str], Any] = {
        (Tool, "__call__"): call_tool,
        (MultiStepAgent, "__call__"): call_agent,
        (MultiStepAgent, "write_memory_to_messages"): write_memory_to_messages,
    }
    if hasattr(local_python_executor, "ThreadPoolExecutor"):  # in older versions code runs in the agent's own thread
        seams[local_python_executor, "ThreadPoolExecutor"] = _Carrying
    return put(seams)


class _Carrying(ThreadPoolExecutor):
    """Runs an agent's code in the agent's context.

    The code's thread thereby knows the session and the running call.
    """

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        return super().submit(copy_context().run, fn, *args, **kwargs)


class _Call(Attempt[Any]):
    def __init__(self, what: FrameworkCall) -> None:
        self._what = what

    def seen(self) -> FrameworkCall:
        return self._what

    def refused(self, no: Refused) -> Any:
        step = _step.get()
        if step is None or not step.code:
            return no.sentence
        raise Blocked(no.decision) if no.decision is not None else GateUnavailable(no.sentence)

    def warned(self, result: Any, sentence: str) -> Any:
        return f"{result}\n\n{sentence}" if isinstance(result, str) else result


def _params(tool: Tool, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments by name, as ``Tool.__call__`` takes them: one dict may hold all of them."""
    if len(args) == 1 and not kwargs and isinstance(args[0], dict) and args[0].keys() <= tool.inputs.keys():
        return dict(args[0])
    return {**dict(zip(tool.inputs, args, strict=False)), **kwargs}


def _read() -> list[str] | None:
    """Return what the model had read when it made this call; None outside of an agent."""
    step = _step.get()
    if step is None:
        return None
    return [text for message in step.messages for text in _texts(message.content)]


def _texts(content: Any) -> Iterable[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        yield from (part["text"] for part in content if isinstance(part, Mapping) and isinstance(part.get("text"), str))
