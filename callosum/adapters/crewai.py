"""CrewAI: ``install`` for every agent and crew of the process, with CrewAI's own hooks before and after a tool.

::

    install(gate)

CrewAI turns what a tool raises into text before a hook sees it, so this also replaces the functions that run tools.
They are not official extension points; each version is tested.

For an agent that writes its calls as text, CrewAI runs a tool that raises up to six times a call. Under the gate a tool
above tier 0 runs once: CrewAI gets the first error again.

CrewAI has no conversation: pass ``session=``, otherwise the process is the session. A refusal is the tool's result:
only the sentence. CrewAI runs the tool if a hook raises, so this hook refuses then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from contextvars import ContextVar
from typing import Any, Final, Unpack

from crewai.hooks import (
    ToolCallHookContext,
    register_after_tool_call_hook,
    register_before_tool_call_hook,
    unregister_after_tool_call_hook,
    unregister_before_tool_call_hook,
)
from crewai.tools import BaseTool
from crewai.tools.structured_tool import CrewStructuredTool

from callosum.adapters._seams import noting
from callosum.adapters.core import Adapter, Attempt, FrameworkCall, Noted, Options, Refused, RunningCall
from callosum.gate import Gate

logger = logging.getLogger("callosum")

_BLOCKED: Final = "Tool execution blocked by hook. Tool: "
"""Start of CrewAI's result for a call that a hook has refused."""
_FAILED: Final = ("Error executing tool: ", "I encountered an error while trying to use the tool.")
"""Start of the text into which CrewAI turns what a tool raised, before a hook sees it."""
_AGREED: Final = ("y", "yes")
_noted: ContextVar[Noted | None] = ContextVar("callosum_crewai_noted", default=None)
"""Holds the record of what the current call's tool raises. CrewAI calls a hook and the tool in one context."""


class _Hooks:
    """The pair of hooks. CrewAI passes both the same dict of arguments, which identifies the call."""

    def __init__(self, gate: Gate, options: Options, *, host_approvals: bool) -> None:
        self._adapter = Adapter(gate, **options)
        self._host_approvals = host_approvals
        self._calls: dict[int, tuple[Mapping[str, Any], RunningCall[str] | str, Noted | None]] = {}
        """The calls that were begun: their arguments, the answer, and what the surrounding call's tool raised."""

    def before(self, context: ToolCallHookContext) -> bool | None:
        """Ask the gate about a call; False keeps it from running."""
        around = _noted.get()
        try:
            begun: RunningCall[str] | str = self._begun(context)
        except Exception as error:  # otherwise CrewAI would run the tool
            logger.exception("%s is refused: the gate failed", context.tool_name)
            begun = f"[Callosum] The call was not run: the gate failed ({type(error).__name__})."
        self._calls[id(context.tool_input)] = context.tool_input, begun, around
        return False if isinstance(begun, str) else None

    def after(self, context: ToolCallHookContext) -> str | None:
        """Report how a call ended; return the refusal, or the result with a warning behind it."""
        _, begun, around = self._calls.pop(id(context.tool_input), (None, None, None))
        _noted.set(around)
        if begun is None or isinstance(begun, str):
            return begun
        result = context.tool_result or ""
        if result.startswith(_BLOCKED):  # by another hook
            begun.cancel()
            return None
        try:
            read = begun.end(result)
        except Exception:  # otherwise CrewAI would hide it, and the lease would be renewed forever
            logger.exception("how %s ended cannot be reported", context.tool_name)
            begun.fail(RuntimeError("how it ended cannot be reported"))
            return None
        return read if read != result else None

    def _begun(self, context: ToolCallHookContext) -> RunningCall[str] | str:
        attempt = _ToolCall(context, asks=self._host_approvals)
        begun = self._adapter.begin(attempt)
        _noted.set(attempt.noted)
        if not isinstance(begun, RunningCall):
            return begun.said(attempt)
        if begun.params is not None:
            context.tool_input.clear()
            context.tool_input.update(begun.params)
        return begun


class _ToolCall(Attempt[str]):
    def __init__(self, context: ToolCallHookContext, *, asks: bool) -> None:
        self._context, self._asks = context, asks
        self.noted: Noted = Noted(once=True)

    def seen(self) -> FrameworkCall:
        context, tool = self._context, self._context.tool
        schema = None
        with suppress(Exception):  # a schema that JSON cannot hold is of no use
            schema = tool.args_schema.model_json_schema()
        return FrameworkCall(
            tool=context.tool_name,
            params=dict(context.tool_input),
            texts=_read(context),
            description=getattr(tool, "description", None),
            schema=schema,
        )

    def refused(self, no: Refused) -> str:
        return no.sentence

    def warned(self, result: str, sentence: str) -> str:
        return f"{result}\n\n{sentence}"

    def failed(self, _result: str) -> bool:
        return _result.strip().startswith(_FAILED)

    def asked(self, _no: Refused) -> bool | None:
        if not self._asks:
            return None
        with suppress(EOFError):  # no person is at the terminal
            said = self._context.request_human_input(_no.sentence, "Type 'yes' to let it run, or press Enter:")
            return str(said).strip().lower() in _AGREED
        return None


def install(gate: Gate, *, host_approvals: bool = False, **options: Unpack[Options]) -> Callable[[], None]:
    """Put the gate around every tool of this process's agents. Return a function that removes it.

    Another call replaces the gate. ``options`` are those of ``callosum.adapters.core.Options``. With ``host_approvals``
    a person is asked at the terminal, and the run waits. The gate needs the same setting, otherwise the call is
    refused.
    """
    hooks = _Hooks(gate, options, host_approvals=host_approvals)
    while _installed:
        _installed[-1]()

    untouched = [(kind, name, vars(kind)[name]) for kind, name in _runs()]

    def uninstall() -> None:
        unregister_before_tool_call_hook(hooks.before)
        unregister_after_tool_call_hook(hooks.after)
        if uninstall in _installed:
            _installed.remove(uninstall)
            for kind, name, run in untouched:
                setattr(kind, name, run)

    for kind, name, run in untouched:
        setattr(kind, name, noting(run, lambda: _noted.get() or nullcontext()))
    register_before_tool_call_hook(hooks.before)
    register_after_tool_call_hook(hooks.after)
    _installed.append(uninstall)
    return uninstall


_installed: list[Callable[[], None]] = []
"""The function that removes the last installed gate."""


def _runs() -> Iterator[tuple[type, str]]:
    """Return the functions through which CrewAI runs tools, including those of the tools' own classes."""
    yield from ((CrewStructuredTool, name) for name in ("invoke", "ainvoke"))
    kinds: list[type] = [BaseTool]
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if "run" in vars(kind):
            yield kind, "run"


def _read(context: ToolCallHookContext) -> list[str] | None:
    """Return what the model had read when it made this call; None if that is unknown."""
    messages = getattr(getattr(context.agent, "agent_executor", None), "messages", None)
    if not messages:
        return None
    calls = [place for place, message in enumerate(messages) if message.get("tool_calls")]
    read = messages[: calls[-1]] if calls else messages  # an agent that writes its calls as text makes one at a time
    return [text for message in read for text in _texts(message.get("content"))]


def _texts(content: Any) -> Iterable[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for part in content:
            yield from _texts(part.get("text") if isinstance(part, Mapping) else part)
