"""CrewAI: ``install`` for every agent and crew of the process, over CrewAI's own hooks before and after a tool.

::

    install(gate)

What a tool raises CrewAI turns into text before a hook sees it, so the functions by which tools run are replaced too.
These are no official seams; each version is tested.

CrewAI has no conversation: give ``session=``, else the process is the session. A refusal is the tool's result: the
sentence, and nothing around it. CrewAI runs the tool when a hook raises; this one refuses then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from contextvars import ContextVar
from functools import wraps
from inspect import iscoroutinefunction
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

from callosum.adapters.core import Adapter, Attempt, Noted, Options, Refused, Running, Seen
from callosum.gate import Gate

logger = logging.getLogger("callosum")

_BLOCKED: Final = "Tool execution blocked by hook. Tool: "
"""How CrewAI's result of a call begins that a hook has refused."""
_FAILED: Final = ("Error executing tool: ", "I encountered an error while trying to use the tool.")
"""How the text begins that CrewAI makes of what a tool raised, before a hook sees it."""
_AGREED: Final = ("y", "yes")
_noted: ContextVar[Noted | None] = ContextVar("callosum_crewai_noted", default=None)
"""Where what the tool of the current call raises is noted. CrewAI calls a hook and the tool in one context."""


class _Hooks:
    """The pair of hooks. CrewAI gives both of them the same dict of arguments, by which they know a call."""

    def __init__(self, gate: Gate, options: Options, *, host_approvals: bool) -> None:
        self._adapter = Adapter(gate, **options)
        self._host_approvals = host_approvals
        self._calls: dict[int, tuple[Mapping[str, Any], Running[str] | str]] = {}

    def before(self, context: ToolCallHookContext) -> bool | None:
        """Ask the gate about a call; False keeps it from running."""
        try:
            begun: Running[str] | str = self._begun(context)
        except Exception as error:  # CrewAI would run the tool
            logger.exception("%s is refused: the gate failed", context.tool_name)
            begun = f"[Callosum] The call was not run: the gate failed ({type(error).__name__})."
        self._calls[id(context.tool_input)] = context.tool_input, begun
        return False if isinstance(begun, str) else None

    def after(self, context: ToolCallHookContext) -> str | None:
        """Report how a call ended; return the refusal, or the result with a warning behind it."""
        _, begun = self._calls.pop(id(context.tool_input), (None, None))
        if begun is None or isinstance(begun, str):
            return begun
        result = context.tool_result or ""
        if result.startswith(_BLOCKED):  # by another hook
            begun.cancel()
            return None
        try:
            read = begun.end(result)
        except Exception:  # CrewAI would say nothing of it, and the lease would be renewed without end
            logger.exception("how %s ended cannot be reported", context.tool_name)
            begun.fail(RuntimeError("how it ended cannot be reported"))
            return None
        return read if read != result else None

    def _begun(self, context: ToolCallHookContext) -> Running[str] | str:
        attempt = _ToolCall(context, asks=self._host_approvals)
        begun = self._adapter.begin(attempt)
        _noted.set(attempt.noted)
        if not isinstance(begun, Running):
            return begun.said(attempt)
        if begun.params is not None:
            context.tool_input.clear()
            context.tool_input.update(begun.params)
        return begun


class _ToolCall(Attempt[str]):
    def __init__(self, context: ToolCallHookContext, *, asks: bool) -> None:
        self._context, self._asks, self.noted = context, asks, Noted()

    def seen(self) -> Seen:
        context, tool = self._context, self._context.tool
        schema = None
        with suppress(Exception):  # a schema that cannot be written as JSON helps nobody
            schema = tool.args_schema.model_json_schema()
        return Seen(
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

    def raised(self) -> BaseException | None:
        return self.noted.error

    def asked(self, _no: Refused) -> bool | None:
        if not self._asks:
            return None
        with suppress(EOFError):  # nobody sits at the terminal
            said = self._context.request_human_input(_no.sentence, "Type 'yes' to let it run, or press Enter:")
            return str(said).strip().lower() in _AGREED
        return None


def install(gate: Gate, *, host_approvals: bool = False, **options: Unpack[Options]) -> Callable[[], None]:
    """Put the gate around every tool of this process's agents; return what takes it away.

    Called again, it replaces its earlier gate. ``options`` are those of ``callosum.adapters.core.Options``.
    ``host_approvals``: what a person must decide is asked at the terminal, and the run waits. The gate must have been
    told the same, else the call is refused.
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
        setattr(kind, name, _noting(run))
    register_before_tool_call_hook(hooks.before)
    register_after_tool_call_hook(hooks.after)
    _installed.append(uninstall)
    return uninstall


_installed: list[Callable[[], None]] = []
"""What takes the last installed gate away."""


def _runs() -> Iterator[tuple[type, str]]:
    """Return the functions by which CrewAI runs tools, those of the tools' own classes too."""
    yield from ((CrewStructuredTool, name) for name in ("invoke", "ainvoke"))
    kinds: list[type] = [BaseTool]
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if "run" in vars(kind):
            yield kind, "run"


def _noting(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with what it raises noted for the call that runs it."""
    if iscoroutinefunction(run):

        @wraps(run)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            with _noted.get() or nullcontext():
                return await run(*args, **kwargs)

        return awaited

    @wraps(run)
    def called(*args: Any, **kwargs: Any) -> Any:
        with _noted.get() or nullcontext():
            return run(*args, **kwargs)

    return called


def _read(context: ToolCallHookContext) -> list[str] | None:
    """What the model had read when it made this call; None where nothing tells."""
    messages = getattr(getattr(context.agent, "agent_executor", None), "messages", None)
    if not messages:
        return None
    calls = [place for place, message in enumerate(messages) if message.get("tool_calls")]
    read = messages[: calls[-1]] if calls else messages  # an agent that writes its calls makes one at a time
    return [text for message in read for text in _texts(message.get("content"))]


def _texts(content: Any) -> Iterable[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for part in content:
            yield from _texts(part.get("text") if isinstance(part, Mapping) else part)
