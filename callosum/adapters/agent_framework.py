"""Microsoft Agent Framework: ``CallosumMiddleware`` for an agent, one run or a chat client; ``install`` for all agents.

::

    agent = Agent(client=client, tools=[send_email], middleware=[CallosumMiddleware(gate)])
    install(gate)

The session is that of the run (``AgentSession.session_id``). A refusal is the tool's result: only the sentence. The
gate does not see tools that run at the provider.
"""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, ClassVar, Unpack

from agent_framework import (
    Agent,
    ChatContext,
    ChatMiddleware,
    Content,
    FunctionInvocationContext,
    FunctionMiddleware,
    MiddlewareBundle,
    MiddlewareTermination,
)
from agent_framework.exceptions import UserInputRequiredException
from msgspec import to_builtins
from pydantic_core import to_jsonable_python

from callosum.adapters._seams import add_to_new
from callosum.adapters.core import Adapter, Attempt, FrameworkCall, Options, Refused, identity_of
from callosum.gate import Gate

_LOOKED_BACK = 80
"""Number of newest messages that are searched."""
_GATED = "callosum"
"""Marks a call that the gate has judged, for a second middleware of this kind."""
_read: ContextVar[tuple[str, ...] | None] = ContextVar("callosum_read", default=None)
"""Identities of the calls whose results the model had read at its last request; None if that request was not seen."""


with warnings.catch_warnings():
    warnings.filterwarnings(
        "ignore", r"\[AGENT_HOOKS\]"
    )  # the SDK warns that bundles are experimental, and only a bundle is both middlewares in one

    class CallosumMiddleware(MiddlewareBundle):  # type: ignore[misc]  # the framework is not looked into
        """Puts the gate around every tool of an agent; streaming and parallel calls alike. Put it first.

        The options are those of ``callosum.adapters.core.Options``. ``host_approvals``: a call that a person must
        decide becomes a request for a function approval, and an approval is the yes. The gate must have been told the
        same, else an approval raises ``ConfigError``.
        """

        def __init__(self, gate: Gate, *, host_approvals: bool = False, **options: Unpack[Options]) -> None:
            super().__init__([_Functions(Adapter(gate, **options), asks=host_approvals), _Chats()])


def install(gate: Gate, *, host_approvals: bool = False, **options: Unpack[Options]) -> Callable[[], None]:
    """Put the middleware first in every agent made from now on. Return a function that stops this.

    Another call replaces the gate for agents made later. Options are those of ``CallosumMiddleware``.
    """
    ours = CallosumMiddleware(gate, host_approvals=host_approvals, **options)

    return add_to_new(Agent, "middleware", ours, lambda one: isinstance(one, CallosumMiddleware), first=True)


class _Chats(ChatMiddleware):  # type: ignore[misc]
    """Records what the model reads, so that a call of a later turn can confirm an earlier one."""

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        read = (
            identity_of(call.id or "", call.call_id)
            for message in context.messages[-_LOOKED_BACK:]
            for call in message.contents
            if call.type == "function_call"
        )
        _read.set(tuple(one for one in read if one))
        await call_next()


class _Functions(FunctionMiddleware):  # type: ignore[misc]
    def __init__(self, adapter: Adapter, *, asks: bool) -> None:
        self._adapter, self._asks = adapter, asks

    async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
        if _GATED in context.metadata:
            await call_next()
            return
        context.metadata[_GATED] = True
        ended: list[MiddlewareTermination] = []

        async def tool(params: Mapping[str, Any] | None) -> Any:
            if params is not None:
                context.arguments = dict(params)
            try:
                await call_next()
            except MiddlewareTermination as error:  # ends the run with a result, so the tool did not fail
                ended.append(error)
            if getattr(context.result, "type", None) == _APPROVAL:
                raise _Asked
            return context.result

        try:
            with suppress(_Asked):
                context.result = await self._adapter.arun(_FunctionCall(context, asks=self._asks), tool)
        finally:
            context.metadata.pop(_GATED, None)  # running the function again must ask the gate again
        for error in ended:
            raise error


_APPROVAL = "function_approval_request"


class _Asked(Exception):
    """Says that a tool did not run: its result is a request for an approval."""


class _FunctionCall(Attempt[Any]):
    interrupts: ClassVar[tuple[type[BaseException], ...]] = (_Asked, UserInputRequiredException)

    def __init__(self, context: FunctionInvocationContext, *, asks: bool) -> None:
        self._context, self._asks = context, asks

    def seen(self) -> FrameworkCall:
        context, tool = self._context, self._context.function
        given = context.arguments
        arguments = given if isinstance(given, Mapping) else given.model_dump()
        return FrameworkCall(
            tool=tool.name,
            params=to_jsonable_python(dict(arguments), fallback=str, serialize_unknown=True),
            call_id=context.metadata.get("call_id"),
            turn=context.metadata.get("function_call_occurrence_id") or "",
            read=_read.get(),
            thread=context.session.session_id if context.session is not None else None,
            description=tool.description,
            schema=tool.parameters(),
        )

    def refused(self, no: Refused) -> Any:
        return no.sentence

    def warned(self, result: Any, sentence: str) -> Any:
        if isinstance(result, str):
            return f"{result}\n\n{sentence}"
        return [*result, Content.from_text(sentence)] if _are_contents(result) else result

    def said(self, result: Any) -> Any:
        if _are_contents(result):
            return [one.text if one.type == "text" else one.to_dict() for one in result]
        return to_jsonable_python(result, fallback=str, serialize_unknown=True)

    def asked(self, no: Refused) -> bool | None:
        if not self._asks:
            return None
        metadata = self._context.metadata
        if "approval_response" in metadata:  # the framework only runs approved calls
            return True
        id = metadata.get("function_call_occurrence_id") or metadata["call_id"]
        call = Content.from_function_call(
            metadata["call_id"], self._context.function.name, arguments=dict(self.seen().params), id=id
        )
        self._context.result = Content.from_function_approval_request(
            id, call, additional_properties={"callosum": no.sentence, "conflicts": to_builtins(no.conflicts)}
        )
        raise _Asked


def _are_contents(result: Any) -> bool:
    return isinstance(result, list) and all(isinstance(one, Content) for one in result)
