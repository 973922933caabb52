"""LangChain and LangGraph: ``CallosumMiddleware`` for ``create_agent`` and for your own ``ToolNode``.

::

    agent = create_agent(model, tools=[send_email], middleware=[CallosumMiddleware(gate)])
    tools = ToolNode([send_email], **CallosumMiddleware(gate).wrappers())

The session is the thread (``configurable.thread_id``). A refusal is a ``ToolMessage`` of status ``error`` whose text is
the sentence and whose ``artifact`` holds the conflicts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, ClassVar, TypeAlias, TypedDict, Unpack
from weakref import ref

import msgspec
from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ToolCallRequest  # noqa: TC002 - a host of middleware may ask for the types
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import BaseTool  # noqa: TC002 - the same
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt

from callosum.adapters._seams import put, untouched
from callosum.adapters.core import Adapter, Attempt, FrameworkCall, Noted, Options, Refused, identity_of, turn_of
from callosum.gate import Gate

Result: TypeAlias = ToolMessage | Command[Any]
_SLOTS = ("__pydantic_extra__", "__pydantic_fields_set__", "__pydantic_private__")
"""What pydantic stores of a tool besides its ``__dict__``."""
_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


class Wrappers(TypedDict):
    """The arguments with which ``ToolNode`` takes the gate."""

    wrap_tool_call: Callable[[ToolCallRequest, Callable[[ToolCallRequest], Result]], Result]
    awrap_tool_call: Callable[[ToolCallRequest, Callable[[ToolCallRequest], Awaitable[Result]]], Awaitable[Result]]


class CallosumMiddleware(AgentMiddleware):  # type: ignore[misc]  # the framework is not looked into
    """Puts the gate around every tool of an agent: sync and async, streaming and parallel calls.

    The options are those of ``callosum.adapters.core.Options``. With ``host_approvals`` a call that a person must
    decide interrupts the graph; ``Command(resume=True)`` is the yes. The gate needs the same setting, otherwise an
    approval raises ``ConfigError``.
    """

    def __init__(self, gate: Gate, *, host_approvals: bool = False, **options: Unpack[Options]) -> None:
        super().__init__()
        self._adapter = Adapter(gate, **options)
        self.asks = host_approvals
        """True if questions interrupt the graph."""
        self._schemas: dict[int, tuple[ref[BaseTool], Mapping[str, Any] | None]] = {}
        """Schemas of the tools by the tools' ids, because tools are not hashable."""

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Result]) -> Result:
        """Run one call under the gate."""
        attempt = _ToolCall(self, request)

        def run(params: Mapping[str, Any] | None) -> Result:
            before = _gated_now.set(attempt.identity)
            try:
                return handler(attempt.runs(params))
            finally:
                _gated_now.reset(before)

        return self._adapter.run(attempt, run)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Result]]
    ) -> Result:
        """Run one call under the gate and await it."""
        attempt = _ToolCall(self, request)

        async def run(params: Mapping[str, Any] | None) -> Result:
            before = _gated_now.set(attempt.identity)
            try:
                return await handler(attempt.runs(params))
            finally:
                _gated_now.reset(before)

        return await self._adapter.arun(attempt, run)

    def wrappers(self) -> Wrappers:
        """Return the arguments for a ``ToolNode``: ``ToolNode(tools, **middleware.wrappers())``."""
        return {"wrap_tool_call": self.wrap_tool_call, "awrap_tool_call": self.awrap_tool_call}

    def schema_of(self, tool: BaseTool) -> Mapping[str, Any] | None:
        """Return the schema of what the model passes to the tool; None if the tool has none."""
        name = id(tool)
        known = self._schemas.get(name)
        if known is not None and known[0]() is tool:
            return known[1]
        try:
            given = tool.tool_call_schema
            schema = given if isinstance(given, dict) else given.model_json_schema()
        except Exception:  # noqa: BLE001 - a schema that JSON cannot hold is of no use
            schema = None
        with suppress(TypeError):  # read the schema each time if the tool allows no weak references
            self._schemas[name] = ref(tool, lambda _: self._schemas.pop(name, None)), schema
        return schema


def install(gate: Gate, *, host_approvals: bool = False, **options: Unpack[Options]) -> Callable[[], None]:
    """Put the gate around the tools of every ``ToolNode`` made from now on, also in agents.

    Return a function that stops this. A call that the agent's own ``CallosumMiddleware`` has decided is not decided
    twice. Another call of ``install`` replaces the gate for what is made later. The options are those of
    ``CallosumMiddleware``.
    """
    shared = CallosumMiddleware(gate, host_approvals=host_approvals, **options)

    init = untouched(ToolNode, "__init__")

    def made(self: Any, *args: Any, wrap_tool_call: Any = None, awrap_tool_call: Any = None, **given: Any) -> None:
        def inner(request: ToolCallRequest, handler: Callable[[ToolCallRequest], Result]) -> Result:
            return handler(request) if _is_gated(request) else shared.wrap_tool_call(request, handler)

        async def ainner(request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Result]]) -> Result:
            return await (handler(request) if _is_gated(request) else shared.awrap_tool_call(request, handler))

        def wrap(request: ToolCallRequest, handler: Callable[[ToolCallRequest], Result]) -> Result:
            if wrap_tool_call is None:
                return inner(request, handler)
            return wrap_tool_call(request, lambda asked: inner(asked, handler))

        async def awrap(request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Result]]) -> Result:
            if awrap_tool_call is None:
                return await ainner(request, handler)
            return await awrap_tool_call(request, lambda asked: ainner(asked, handler))

        wrappers: dict[str, Any] = {}  # with only one kind set, the framework itself says what is missing
        if wrap_tool_call is not None or awrap_tool_call is None:
            wrappers["wrap_tool_call"] = wrap
        if awrap_tool_call is not None or wrap_tool_call is None:
            wrappers["awrap_tool_call"] = awrap
        init(self, *args, **wrappers, **given)

    return put({(ToolNode, "__init__"): made})


_gated_now: ContextVar[str | None] = ContextVar("callosum_langchain_gated", default=None)
"""The call that a ``CallosumMiddleware`` has let through to its tool."""


def _is_gated(request: ToolCallRequest) -> bool:
    turn, _ = _turns(request.state, request.tool_call["id"])
    return bool(turn) and _gated_now.get() == identity_of(turn, request.tool_call["id"])


class _ToolCall(Attempt[Result]):
    interrupts: ClassVar[tuple[type[BaseException], ...]] = (GraphBubbleUp,)

    def __init__(self, middleware: CallosumMiddleware, request: ToolCallRequest) -> None:
        self._middleware, self._request = middleware, request
        self._turn, self._read = _turns(request.state, request.tool_call["id"])
        self.noted: Noted = Noted()

    @property
    def identity(self) -> str | None:
        """Return the identity by which a repeated call is recognised."""
        return identity_of(self._turn, self._request.tool_call["id"])

    def seen(self) -> FrameworkCall:
        request = self._request
        call, tool = request.tool_call, request.tool
        config = (request.runtime.config if request.runtime is not None else None) or {}
        thread, run = config.get("configurable", {}).get("thread_id"), config.get("run_id")
        metadata = tool.metadata if tool is not None else None
        return FrameworkCall(
            tool=call["name"],
            params=call["args"],
            call_id=call["id"],
            turn=self._turn,
            read=self._read,
            thread=str(thread) if thread else None,
            run=str(run) if run else None,
            description=tool.description if tool is not None else None,
            schema=self._middleware.schema_of(tool) if tool is not None else None,
            annotations={name: metadata[name] for name in _HINTS if name in metadata} if metadata else None,
        )

    def refused(self, no: Refused) -> Result:
        call = self._request.tool_call
        return ToolMessage(
            content=no.sentence,
            tool_call_id=call["id"] or "",
            name=call["name"],
            status="error",
            artifact=msgspec.to_builtins(no.conflicts) or None,
        )

    def warned(self, result: Result, sentence: str) -> Result:
        if not isinstance(result, ToolMessage):
            return result
        content, text = result.content, {"type": "text", "text": sentence}
        added = f"{content}\n\n{sentence}" if isinstance(content, str) else [*content, text]
        return result.model_copy(update={"content": added})

    def said(self, result: Result) -> Any:
        return result.content if isinstance(result, ToolMessage) else None

    def failed(self, _result: Result) -> bool:
        return isinstance(_result, ToolMessage) and _result.status == "error"

    def runs(self, params: Mapping[str, Any] | None) -> ToolCallRequest:
        """Return the request to run, with the gate's params in place of its arguments and a tool that records errors.

        A ``ToolNode`` that handles errors turns them into messages.
        """
        request = self._request
        if params is not None:
            request = request.override(tool_call={**request.tool_call, "args": dict(params)})
        if request.tool is None:
            return request
        copied: ToolCallRequest = object.__new__(type(request))  # ``override`` takes a tenth of the time of a decision
        vars(copied).update(vars(request), tool=_noting(request.tool, self.noted))
        return copied

    def asked(self, _no: Refused) -> bool | None:
        if not self._middleware.asks:
            return None
        call = self._request.tool_call
        return interrupt({"callosum": _no.sentence, "tool": call["name"], "args": call["args"]}) is True


def _noting(tool: BaseTool, noted: Noted) -> BaseTool:
    """Return a copy of a tool that records what the tool raises."""

    def invoke(*args: Any, **kwargs: Any) -> Any:
        with noted:
            return tool.invoke(*args, **kwargs)

    async def ainvoke(*args: Any, **kwargs: Any) -> Any:
        with noted:
            return await tool.ainvoke(*args, **kwargs)

    copied: BaseTool = object.__new__(type(tool))
    for slot in _SLOTS:  # shared: the tool itself runs
        object.__setattr__(copied, slot, getattr(tool, slot))
    vars(copied).update(vars(tool), invoke=invoke, ainvoke=ainvoke)
    return copied


def _turns(state: Any, call_id: str | None) -> tuple[str, tuple[str, ...] | None]:
    if isinstance(state, Mapping):
        messages = state.get("messages")
    else:
        messages = state if isinstance(state, list) else getattr(state, "messages", None)
    return turn_of(messages or [], _calls, call_id)


def _calls(message: Any) -> tuple[str, list[Any]]:
    calls = message.tool_calls if isinstance(message, AIMessage) else ()
    return message.id or "", [call["id"] for call in calls]
