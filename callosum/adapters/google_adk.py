"""Google ADK: ``CallosumPlugin`` for all agents of an app, ``install`` for every app and runner of the process.

::

    app = App(name="mail", root_agent=agent, plugins=[CallosumPlugin(gate)])

The session is ADK's (``session.id``). An agent that a tool runs (``AgentTool``) acts in the session of the surrounding
call, because ADK gives it a new session for each call. A refusal is the tool's response: ``{"error": sentence}``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, Unpack
from weakref import WeakKeyDictionary

from google.adk.plugins.base_plugin import BasePlugin
from google.adk.plugins.plugin_manager import PluginManager
from google.adk.tools import AgentTool, BaseTool, ToolContext

from callosum.adapters._seams import put, untouched
from callosum.adapters.core import (
    Adapter,
    Attempt,
    FrameworkCall,
    KeptResult,
    Options,
    Refused,
    RunningCall,
    hints_of,
    turn_of,
)
from callosum.gate import Gate

_OWN = frozenset({"set_model_response", "transfer_to_agent"})
"""Tools by which ADK itself returns an agent's answer or hands over its turn."""
_MOST_ASKED = 1000
"""Maximum number of unanswered questions that are remembered. Beyond it the oldest are dropped."""
_nested: ContextVar[bool] = ContextVar("callosum_adk_nested", default=False)
"""True if an ``AgentTool`` runs this code."""


class CallosumPlugin(BasePlugin):  # type: ignore[misc]  # the framework is not looked into
    """Puts the gate around every tool of all agents of an app, including agents that tools run.

    Put it last: if another plugin answers a call in place of its tool, the gate is then not asked. ``options`` are
    those of ``callosum.adapters.core.Options``. With ``host_approvals`` a call that a person must decide asks for a
    confirmation (``adk_request_confirmation``). The gate needs the same setting, otherwise an approval raises
    ``ConfigError``.
    """

    def __init__(self, gate: Gate, *, host_approvals: bool = False, **options: Unpack[Options]) -> None:
        super().__init__(name="callosum")
        self._adapter = Adapter(gate, **options)
        self._host_approvals = host_approvals
        self._running: dict[int, tuple[Any, RunningCall[Any]]] = {}
        """Running calls by tool context, which is the same before and after a tool."""
        self._asked: dict[tuple[str, str], None] = {}
        """Calls whose confirmation was requested, by session and id, because a tool may also request one itself."""

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> Any | None:
        """Ask the gate about one call. If the tool does not run, the answer takes its place."""
        if tool.name in _OWN:
            return None
        name = (tool_context.session.id, tool_context.function_call_id or "")
        confirmation = tool_context.tool_confirmation if name in self._asked else None
        self._asked.pop(name, None)
        attempt = _ToolCall(tool, tool_args, tool_context, confirmation.confirmed if confirmation is not None else None)
        begun = await self._adapter.abegin(attempt)
        if isinstance(begun, Refused):
            if begun.asks and confirmation is None and self._host_approvals and tool_context.function_call_id:
                self._asked[name] = None
                while len(self._asked) > _MOST_ASKED:
                    self._asked.pop(next(iter(self._asked)), None)
                tool_context.request_confirmation(hint=begun.sentence)
                tool_context.actions.skip_summarization = True  # the model is not asked again before the person
            return attempt.refused(begun)
        if isinstance(begun, KeptResult):
            return begun.result
        if begun.params is not None:
            tool_args.clear()
            tool_args.update(begun.params)
        self._running[id(tool_context)] = tool_context, begun
        if isinstance(tool, AgentTool):
            _nested.set(True)
        return None

    async def after_tool_callback(
        self, *, tool: BaseTool, tool_context: ToolContext, result: Any, **_: Any
    ) -> Any | None:
        """Report how one call ended. Refused calls arrive here too."""
        running = self._ended(tool, tool_context)
        if running is None:
            return None
        read = await running.aend(result)
        return read if read is not result else None

    async def on_tool_error_callback(
        self, *, tool: BaseTool, tool_context: ToolContext, error: BaseException, **_: Any
    ) -> None:
        """Report that a tool raised, or that its call was cancelled."""
        running = self._ended(tool, tool_context)
        if running is not None:
            await running.afail(error)

    async def after_run_callback(self, *, invocation_context: Any) -> None:
        """End the calls that ADK has paused before running their tools, which nothing else reports."""
        over = [
            key for key, (at, _) in list(self._running.items()) if at.invocation_id == invocation_context.invocation_id
        ]
        for key in over:
            await asyncio.to_thread(self._running.pop(key)[1].cancel)

    def _ended(self, tool: BaseTool, tool_context: ToolContext) -> RunningCall[Any] | None:
        if isinstance(tool, AgentTool):
            _nested.set(False)
        return self._running.pop(id(tool_context), (None, None))[1]


class _ToolCall(Attempt[Any]):
    def __init__(
        self, tool: BaseTool, args: Mapping[str, Any], context: ToolContext, agreed: bool | None = None
    ) -> None:
        self._tool, self._args, self._context, self._agreed = tool, args, context, agreed

    def seen(self) -> FrameworkCall:
        tool, context = self._tool, self._context
        turn, read = turn_of(context.session.events, _calls, context.function_call_id)
        return FrameworkCall(
            tool=tool.name,
            params=dict(self._args),
            call_id=context.function_call_id,
            turn=turn or context.invocation_id,
            read=read,
            thread=None if _nested.get() else context.session.id,
            run=context.invocation_id,
            description=tool.description,
            schema=_schema_of(tool),
            annotations=hints_of(getattr(getattr(tool, "raw_mcp_tool", None), "annotations", None)),
        )

    def refused(self, no: Refused) -> Any:
        return {"error": no.sentence}

    def warned(self, result: Any, sentence: str) -> Any:
        if isinstance(result, str):
            return f"{result}\n\n{sentence}"
        return {**(result if isinstance(result, Mapping) else {"result": result}), "callosum": sentence}

    def failed(self, _result: Any) -> bool:
        return isinstance(_result, Mapping) and bool(_result.get("error"))

    def asked(self, _no: Refused) -> bool | None:
        return self._agreed


def install(gate: Gate, *, host_approvals: bool = False, **options: Unpack[Options]) -> Callable[[], None]:
    """Put the gate around the tools of every runner made from now on. Return a function that removes it.

    An app that has its own ``CallosumPlugin`` keeps that one. Another call replaces the gate.
    """
    shared = CallosumPlugin(gate, host_approvals=host_approvals, **options)

    init = untouched(PluginManager, "__init__")

    def __init__(self: Any, plugins: Any = None, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        own = list(plugins or ())
        if not any(isinstance(one, CallosumPlugin) for one in own):
            own.append(shared)
        init(self, own, *args, **kwargs)

    return put({(PluginManager, "__init__"): __init__})


_schemas: WeakKeyDictionary[BaseTool, Mapping[str, Any] | None] = WeakKeyDictionary()


def _schema_of(tool: BaseTool) -> Mapping[str, Any] | None:
    """Return the schema of what the model passes to the tool; None if the tool declares none."""
    if tool not in _schemas:
        schema = None
        with suppress(Exception):  # a tool may be declared for models of another kind only
            declared = tool._get_declaration()  # noqa: SLF001 - where every tool of ADK says what it takes
            schema = declared.parameters_json_schema or declared.parameters.model_dump(mode="json", exclude_none=True)
        _schemas[tool] = schema
    return _schemas[tool]


def _calls(event: Any) -> tuple[str, list[Any]]:
    return event.id, [call.id for call in event.get_function_calls()]
