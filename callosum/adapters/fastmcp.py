"""FastMCP: ``CallosumMiddleware`` around every tool of a server, including mounted and proxied tools.

::

    server = FastMCP("mail", middleware=[CallosumMiddleware(gate)])

A refusal is a result with ``is_error`` whose text is the sentence; its ``_meta`` has the conflicts
(``io.callosum/conflicts``). The rules know the tools as ``mcp__SERVER__TOOL``.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
from collections import OrderedDict
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Final, TypeAlias, Unpack

import anyio
import msgspec
from fastmcp.server.dependencies import get_access_token
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools.base import InputRequiredToolResult, ToolResult
from mcp_types import CallToolRequestParams, ElicitRequest, ElicitRequestFormParams, InputRequiredResult, TextContent

from callosum.adapters.core import Adapter, Attempt, FrameworkCall, Options, Refused, RunningCall, hints_of
from callosum.adapters.lost import Lost
from callosum.elicitation import FIELD, INPUT_SECONDS, MOST, agreed, form
from callosum.gate import Gate
from callosum.model import MAX_NAME, TRACE

CONFLICTS: Final = "io.callosum/conflicts"
"""Name of the conflicts in ``_meta`` of a refusal."""
_PREFIX: Final = "io.callosum/"
_UNUSUAL: Final = re.compile(r"[^A-Za-z0-9_-]+")
_PER_REQUEST: Final = "2026"
"""Start of the protocol versions from which on every request names its version and its client."""
_CLIENT: Final = "io.modelcontextprotocol/clientInfo"
_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"

_Same: TypeAlias = tuple[str, str, str, str]
"""Instance, session, tool and arguments, which identify a repeated call."""
Context: TypeAlias = MiddlewareContext[CallToolRequestParams]
Next: TypeAlias = CallNext[CallToolRequestParams, ToolResult]


class _GoesOn(Exception):
    """Says that the result names a task: the work continues elsewhere."""


class CallosumMiddleware(Middleware):  # type: ignore[misc]  # the framework is not looked into
    """Puts the gate around every tool of a server.

    ``options`` are those of ``callosum.adapters.core.Options``. The instance is the first of these that is known: the
    option ``instance``, ``io.callosum/agent`` in the call's ``_meta``, the client's name. The session is the first of
    these: the option ``session``, ``io.callosum/session`` in ``_meta``, over HTTP the protocol's session (up to 2025),
    the client of the access token, the client's address; otherwise the process. ``name`` is the server's name in the
    names of its tools (default: its own). With ``host_approvals`` a person decides in a form of the client, if the
    client shows forms (from 2026 on). The gate needs the same setting, otherwise the call is refused.

    Put it first: the gate then decides before other middleware does anything to a call.
    """

    def __init__(
        self, gate: Gate, *, name: str | None = None, host_approvals: bool = False, **options: Unpack[Options]
    ) -> None:
        self._adapter = Adapter(gate, **options)
        self._name = name
        self._host_approvals = host_approvals
        self._lost: Lost[ToolResult] = Lost(lambda result: len(result.model_dump_json()))
        self._nonce, self._count = os.urandom(6).hex(), itertools.count(1)
        self._questions: OrderedDict[str, tuple[_Same, str]] = OrderedDict()
        self._waiting: OrderedDict[tuple[_Same, str], tuple[RunningCall[ToolResult], asyncio.TimerHandle]] = (
            OrderedDict()
        )

    async def on_call_tool(self, context: Context, call_next: Next) -> ToolResult:
        """Run one call under the gate."""
        call = await self._call(context)
        # up to 2025 streams are resumed, a client without a session cannot be recognised, and a pipe does not break
        if not call.modern or call.named is None or call.request is None:
            return await self._gated(context, call_next, call)
        return await self._lost.run(
            call.same, partial(self._gated, context, call_next, call), partial(_is_cut, call.request)
        )

    async def _gated(self, context: Context, call_next: Next, call: _ToolCall, began: Any = lambda: None) -> ToolResult:
        running = self._resumed(call) or await self._adapter.abegin(call)
        if not isinstance(running, RunningCall):
            if isinstance(running, Refused) and running.asks and call.shows_forms:
                return self._question(call, running)
            return running.said(call)
        began()
        if running.params is not None:
            context = context.copy(message=context.message.model_copy(update={"arguments": dict(running.params)}))
        try:
            result = await call_next(context)
        except BaseException as error:
            await running.afail(error)
            raise
        if isinstance(result, InputRequiredToolResult):
            self._wait(call, result.input_required.request_state, running)
        elif not isinstance(result, ToolResult):
            await running.afail(_GoesOn())
        else:
            return await running.aend(result)
        return result

    async def _call(self, context: Context) -> _ToolCall:
        """Describe a call for the gate."""
        message, around = context.message, context.fastmcp_context
        found = around.request_context if around is not None else None
        meta = (found.meta if found is not None else None) or {}
        server = around.fastmcp if around is not None else None
        tool = await server.get_tool(message.name) if server is not None else None
        call = _ToolCall(message, meta, found)
        call.tool = f"mcp__{_plain(self._name or (server.name if server is not None else ''))}__{message.name}"
        if tool is not None:
            call.description, call.schema = tool.description, tool.parameters
            call.annotations = hints_of(tool.annotations)
        call.shows_forms = self._host_approvals and call.modern and _shows_forms(meta)
        call.call_id = _said(meta, "call") or f"{self._nonce}-{next(self._count)}"
        if message.request_state in self._questions:
            same, call_id = self._questions[message.request_state]
            if same == call.same:
                del self._questions[message.request_state]
                call.call_id, call.answer = call_id, _answer(message.input_responses)
                call.shows_forms = False  # the person has already been asked
        return call

    def _wait(self, call: _ToolCall, state: str | None, running: RunningCall[ToolResult]) -> None:
        """Keep a call open whose tool has asked the client for input. The client repeats the call with it."""
        key = call.same, state or ""
        loop = asyncio.get_running_loop()
        expires = loop.call_later(INPUT_SECONDS, self._give_up, key)
        left = [self._waiting.pop(key, None)]
        self._waiting[key] = running, expires
        if len(self._waiting) > MOST:
            left.append(self._waiting.popitem(last=False)[1])
        for one in left:
            if one is not None:
                one[1].cancel()
                loop.run_in_executor(None, one[0].cancel)

    def _resumed(self, call: _ToolCall) -> RunningCall[ToolResult] | None:
        """Return the open call that this call continues; None for a new one."""
        found = self._waiting.pop((call.same, call.state), None) if call.comes_back else None
        if found is None:
            return None
        found[1].cancel()
        return found[0]

    def _give_up(self, key: tuple[_Same, str]) -> None:
        """Report a call as cancelled whose tool waited for input that never arrived."""
        running, _ = self._waiting.pop(key)
        asyncio.get_running_loop().run_in_executor(None, running.cancel)

    def _question(self, call: _ToolCall, no: Refused) -> ToolResult:
        """Ask the person behind the client."""
        state = os.urandom(12).hex()
        self._questions[state] = call.same, call.call_id
        while len(self._questions) > MOST:
            self._questions.popitem(last=False)
        params = ElicitRequestFormParams.model_validate(form(call.tool, call.params, no.sentence))
        asked = InputRequiredResult(input_requests={FIELD: ElicitRequest(params=params)}, request_state=state)
        return InputRequiredToolResult(asked)


class _ToolCall(Attempt[ToolResult]):
    handoffs: ClassVar[tuple[type[BaseException], ...]] = (_GoesOn,)

    def __init__(self, message: CallToolRequestParams, meta: Mapping[str, Any], found: Any) -> None:
        self.tool, self.call_id = message.name, ""
        self.params = dict(message.arguments or {})
        self.meta = meta
        self.request = found.request if found is not None else None
        self.modern = found is not None and found.protocol_version >= _PER_REQUEST
        self.named = _said(meta, "session")
        self.agent = _said(meta, "agent")
        self.thread = self.named or _thread(found, modern=self.modern)
        client = meta.get(_CLIENT)
        self.instance = self.agent or _fit(client.get("name") if isinstance(client, Mapping) else None)
        self.same: _Same = (self.instance or "", self.thread or "", message.name, _written(self.params))
        self.description: str | None = None
        self.schema: Mapping[str, Any] | None = None
        self.annotations: Mapping[str, bool] | None = None
        self.state = message.request_state or ""
        self.comes_back = bool(message.request_state or message.input_responses)
        self.shows_forms = False
        self.answer: bool | None = None

    def seen(self) -> FrameworkCall:
        trace = {one: self.meta[one] for one in TRACE if isinstance(self.meta.get(one), str)}
        return FrameworkCall(
            tool=self.tool[:MAX_NAME],
            params=self.params,
            call_id=self.call_id,
            thread=self.thread,
            run=_said(self.meta, "run"),
            instance=self.instance,
            meta=trace if TRACE[0] in trace else None,
            description=self.description,
            schema=self.schema,
            annotations=self.annotations,
        )

    def refused(self, no: Refused) -> ToolResult:
        conflicts = msgspec.to_builtins(no.conflicts)
        return ToolResult(
            [TextContent(type="text", text=no.sentence)],
            meta={CONFLICTS: conflicts} if conflicts else None,
            is_error=True,
        )

    def warned(self, result: ToolResult, sentence: str) -> ToolResult:
        content = [*result.content, TextContent(type="text", text=sentence)]
        return ToolResult(content, result.structured_content, result.meta, is_error=result.is_error)

    def said(self, result: ToolResult) -> Any:
        text = "\n".join(block.text for block in result.content if isinstance(block, TextContent))
        if result.is_error:
            return {"error": text}
        return result.structured_content if result.structured_content is not None else {"text": text}

    def failed(self, result: ToolResult) -> bool:
        return bool(result.is_error)

    def asked(self, _no: Refused) -> bool | None:
        return self.answer


def _thread(found: Any, *, modern: bool) -> str | None:
    """Return the session of a client that names none; None for a client that talks only to this process."""
    if found is None or found.request is None:
        return None
    if not modern and (session := found.request.headers.get("mcp-session-id")):
        return str(session)
    token = get_access_token()
    if token is not None and token.client_id:
        return str(token.client_id)
    return found.request.client.host if found.request.client is not None else None


def _said(meta: Mapping[str, Any], name: str) -> str | None:
    return _fit(meta.get(_PREFIX + name))


def _fit(name: object) -> str | None:
    """Return a name that the gate accepts; None for any other value."""
    return name if isinstance(name, str) and 0 < len(name) <= MAX_NAME and name.isprintable() else None


def _plain(name: str) -> str:
    return _UNUSUAL.sub("_", name).strip("_")[:64] or "server"


def _written(params: Mapping[str, Any]) -> str:
    return json.dumps(params, sort_keys=True, separators=(",", ":"))


def _shows_forms(meta: Mapping[str, Any]) -> bool:
    said = meta.get(_CAPABILITIES)
    modes = said.get("elicitation") if isinstance(said, Mapping) else None
    return isinstance(modes, Mapping) and (not modes or modes.get("form") is not None)


def _answer(responses: Mapping[str, Any] | None) -> bool | None:
    """Return the person's answer; None if the form was dismissed."""
    said = (responses or {}).get(FIELD)
    content = getattr(said, "content", None) or {}
    return agreed(getattr(said, "action", None), approve=content.get("approve") is True)


async def _is_cut(request: Any) -> bool:
    """Return True if the client has closed the connection of its request."""
    if request is None:
        return False
    with anyio.CancelScope(shield=True):  # the SDK has cancelled the request and would cancel this check too
        gone: bool = await request.is_disconnected()
    return gone
