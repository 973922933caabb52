"""OpenAI Agents SDK: ``gate_agent`` gates one agent and its handoffs, ``install`` every agent of the process.

::

    agent = gate_agent(Agent(name="mira", tools=[send_email]), gate)
    install(gate)

The gate decides on function tools, MCP tools, agents used as tools, and the shell and patch tools of this process
(``ShellTool``, ``LocalShellTool``, ``ApplyPatchTool``). It does not see hosted tools, which run at OpenAI.

The session is ``RunConfig(group_id=...)``, or the group of the surrounding ``trace``. Without a group each trace is a
session, or each run if tracing is disabled. A refusal is the tool's output: only the sentence.
"""

from __future__ import annotations

import inspect
import json
import os
import shlex
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar, Unpack
from weakref import WeakKeyDictionary

from agents import Agent, ApplyPatchTool, FunctionTool, Handoff, LocalShellTool, ShellTool, default_tool_error_function
from agents.editor import ApplyPatchOperation, ApplyPatchResult
from agents.tracing import get_current_trace
from agents.tracing.traces import NoOpTrace

from callosum.adapters._seams import put, untouched
from callosum.adapters.core import (
    Adapter,
    Attempt,
    FrameworkCall,
    Noted,
    Options,
    Refused,
    identity_of,
    is_within_a_call,
)
from callosum.errors import ConfigError
from callosum.gate import Gate
from callosum.model import Verdict

A = TypeVar("A")

_LOOKED_BACK = 80
"""Number of a run's newest calls that are remembered."""
_FAILED = str(default_tool_error_function(None, Exception("?"))).partition("?")[0]
"""Start of the text into which the SDK turns what a tool raised, before any other code sees it."""
_UNTOUCHED = untouched(Agent, "get_all_tools")


def gate_agent(agent: A, gate: Gate, *, host_approvals: bool = False, **options: Unpack[Options]) -> A:
    """Put the gate around every tool of an agent, and of the agents that it hands off to. Return the agent.

    The options are those of ``callosum.adapters.core.Options``. With ``host_approvals`` a call that a person must
    decide ``needs_approval``. The gate needs the same setting, and ``session`` must be given, because the SDK asks
    before it tells the group. A clone of the agent is not gated.

    Raises:
        ConfigError: ``host_approvals`` is set without ``session``.
    """
    adapter = _adapter(gate, host_approvals, options)
    gated: set[int] = set()
    waiting: list[Any] = [agent]
    while waiting:
        one = waiting.pop()
        if not isinstance(one, Agent) or id(one) in gated:
            continue
        gated.add(id(one))
        one.get_all_tools = _tools_of(_UNTOUCHED.__get__(one), adapter, host_approvals)
        waiting += [getattr(to, "agent", None) if isinstance(to, Handoff) else to for to in one.handoffs]
    return agent


def install(gate: Gate, *, host_approvals: bool = False, **options: Unpack[Options]) -> Callable[[], None]:
    """Put the gate around the tools of every agent of this process, old and new. Return a function that removes it.

    Another call replaces the gate. Options are those of ``gate_agent``.
    """
    adapter = _adapter(gate, host_approvals, options)

    async def get_all_tools(self: Any, run_context: Any) -> list[Any]:
        return await _tools_of(_UNTOUCHED.__get__(self), adapter, host_approvals)(run_context)

    return put({(Agent, "get_all_tools"): get_all_tools})


def _adapter(gate: Gate, asks: bool, options: Options) -> Adapter:
    if asks and options.get("session") is None:
        raise ConfigError("host_approvals needs a session", at="session")
    return Adapter(gate, **options)


def _tools_of(
    own: Callable[[Any], Awaitable[list[Any]]], adapter: Adapter, asks: bool
) -> Callable[[Any], Awaitable[list[Any]]]:
    async def get_all_tools(run_context: Any) -> list[Any]:
        """Return the tools of one turn of a run. The model has by now read the results of earlier turns."""
        run = _runs.setdefault(run_context, _Run(f"run-{os.urandom(6).hex()}", []))
        turn = _Turn(adapter, asks, tuple(run.made), run)
        return [_gated(tool, turn) for tool in await own(run_context)]

    return get_all_tools


class _Run(NamedTuple):
    """One run: a name that no other run has, and the identities of its calls."""

    name: str
    made: list[str]


class _Turn(NamedTuple):
    """One turn of a run: the calls whose results the model has read, and the record of this turn's calls."""

    adapter: Adapter
    asks: bool = False
    read: tuple[str, ...] | None = None
    run: _Run | None = None

    def seen(
        self, name: str, params: Mapping[str, Any], call_id: str | None, context: Any, tool: Any = None
    ) -> FrameworkCall:
        """Return a call of this turn. With ``run`` the call is recorded."""
        config = getattr(context, "run_config", None)
        turn = _turn_of(context, params)
        identity = identity_of(turn, call_id)
        if self.run is not None and identity is not None:
            self.run.made.append(identity)
            del self.run.made[:-_LOOKED_BACK]
        return FrameworkCall(
            tool=name,
            params=params,
            call_id=call_id,
            turn=turn,
            read=self.read,
            thread=getattr(config, "group_id", None) or self._conversation(),
            run=getattr(config, "trace_id", None),
            description=tool.description if tool is not None else None,
            schema=tool.params_json_schema if tool is not None else None,
        )

    def _conversation(self) -> str | None:
        """Return the name of the surrounding trace's group, of the trace, or of the run if nothing is traced.

        None for an agent that a call of another agent runs: it acts in that call's session.
        """
        if is_within_a_call():
            return None
        trace = get_current_trace()
        if trace is None or isinstance(trace, NoOpTrace):
            return None if self.run is None else self.run.name
        group: str | None = getattr(trace, "group_id", None)
        return group or trace.trace_id


_questions: dict[str, None] = {}
"""Identities of the calls about which the gate has asked."""
_MOST_QUESTIONS = 1000
_NONE = "callosum: no call"
"""An id that no call has: a tool that is approved for it is approved permanently."""
_runs: WeakKeyDictionary[Any, _Run] = WeakKeyDictionary()
"""The runs by the contexts that the SDK makes for them."""


def _gated(tool: Any, turn: _Turn) -> Any:
    """Return the tool with the gate around what runs it; unchanged if nothing of it runs in this process."""
    if isinstance(tool, FunctionTool):
        if isinstance(tool.on_invoke_tool, _Invoke):
            return tool
        invoke = _Invoke(turn, tool)
        if not turn.asks:
            return replace(tool, on_invoke_tool=invoke)
        return replace(tool, on_invoke_tool=invoke, needs_approval=invoke.needs_approval)
    if isinstance(tool, ShellTool) and tool.executor is not None and not isinstance(tool.executor, _Shell):
        return replace(tool, executor=_Shell(turn, tool.executor, tool.name))
    if isinstance(tool, LocalShellTool) and not isinstance(tool.executor, _Shell):
        return replace(tool, executor=_Shell(turn, tool.executor, tool.name))
    if isinstance(tool, ApplyPatchTool) and not isinstance(tool.editor, _Editor):
        return replace(tool, editor=_Editor(turn, tool.editor))
    return tool


class _Invoke:
    """Runs a function tool under the gate. The SDK's own attributes stay available on it."""

    def __init__(self, turn: _Turn, tool: Any) -> None:
        self._turn, self._tool, self._inner = turn, tool, tool.on_invoke_tool
        self._can_note = hasattr(self._inner, "_invoke_tool_impl")

    def __getattr__(self, name: str) -> Any:
        if name == "__agents_bind_function_tool__":  # dataclasses.replace would put the inner invoker back
            raise AttributeError(name)
        return getattr(self._inner, name)

    async def __call__(self, context: Any, given: str) -> Any:
        seen = self._turn.seen(self._tool.name, _read(given), context.tool_call_id, context, self._tool)
        attempt = _FunctionCall(seen, approved=self._turn.asks and self._is_answered(context, seen))
        inner = _noting(self._inner, attempt.noted) if self._can_note else self._inner

        def tool(params: Mapping[str, Any] | None) -> Awaitable[Any]:
            return inner(context, given if params is None else json.dumps(params))  # type: ignore[no-any-return]

        return await self._turn.adapter.arun(attempt, tool)

    def _is_answered(self, context: Any, seen: FrameworkCall) -> bool:
        """Return True if a person said yes to the gate's question about this call. Other approvals do not count.

        These are answers to the tool's own question, and permanent approvals.
        """
        put = self._tool.needs_approval is False or identity_of(seen.turn, seen.call_id) in _questions
        name = self._tool.name
        return put and bool(context.is_tool_approved(name, seen.call_id)) and not context.is_tool_approved(name, _NONE)

    async def needs_approval(self, context: Any, params: dict[str, Any], call_id: str) -> bool:
        """Return True if the tool itself asks for an approval, or if the gate wants a person to decide."""
        seen = self._turn.seen(self._tool.name, params, call_id, context, self._tool)
        asks = await self._turn.adapter.verdict(seen) is Verdict.ASK
        if asks and (identity := identity_of(seen.turn, seen.call_id)) is not None:
            _questions[identity] = None
            while len(_questions) > _MOST_QUESTIONS:
                _questions.pop(next(iter(_questions)), None)
        own = self._tool.needs_approval
        return asks or bool(await own(context, params, call_id) if callable(own) else own)


@dataclass
class _Call(Attempt[Any]):
    """A call of any of the SDK's tools. The gate's answer is expressed as text."""

    what: FrameworkCall

    def seen(self) -> FrameworkCall:
        return self.what

    def refused(self, no: Refused) -> Any:
        return no.sentence

    def warned(self, result: Any, sentence: str) -> Any:
        return f"{result}\n\n{sentence}" if isinstance(result, str) else result


class _FunctionCall(_Call):
    def __init__(self, what: FrameworkCall, *, approved: bool | None) -> None:
        super().__init__(what)
        self._approved = approved
        self.noted: Noted = Noted()

    def failed(self, _result: Any) -> bool:
        return isinstance(_result, str) and _result.startswith(_FAILED)

    def asked(self, _no: Refused) -> bool | None:
        return self._approved or None


class _Shell:
    """Runs a shell's commands under the gate."""

    def __init__(self, turn: _Turn, inner: Any, name: str) -> None:
        self._turn, self._inner, self._name = turn, inner, name

    async def __call__(self, request: Any) -> Any:
        action = request.data.action
        command = "\n".join(action.commands) if hasattr(action, "commands") else _joined(action.command)
        seen = self._turn.seen(self._name, {"command": command}, request.data.call_id, request.ctx_wrapper)
        return await self._turn.adapter.arun(_Call(seen), lambda _params: _awaited(self._inner(request)))


class _Patch(_Call):
    def refused(self, no: Refused) -> Any:
        return ApplyPatchResult(status="failed", output=no.sentence)

    def warned(self, result: Any, sentence: str) -> Any:
        if isinstance(result, ApplyPatchResult):
            return ApplyPatchResult(status=result.status, output=f"{result.output or ''}\n\n{sentence}".strip())
        return f"{result or ''}\n\n{sentence}".strip()

    def failed(self, _result: Any) -> bool:
        return isinstance(_result, ApplyPatchResult) and _result.status == "failed"


class _Editor:
    """Edits files under the gate, one operation per call."""

    def __init__(self, turn: _Turn, inner: Any) -> None:
        self._turn, self._inner = turn, inner

    def create_file(self, operation: ApplyPatchOperation) -> Awaitable[Any]:
        return self._edit(operation, self._inner.create_file)

    def update_file(self, operation: ApplyPatchOperation) -> Awaitable[Any]:
        return self._edit(operation, self._inner.update_file)

    def delete_file(self, operation: ApplyPatchOperation) -> Awaitable[Any]:
        return self._edit(operation, self._inner.delete_file)

    async def _edit(self, operation: ApplyPatchOperation, edit: Callable[[ApplyPatchOperation], Any]) -> Any:
        named = {"path": operation.path, "diff": operation.diff, "move_to": operation.move_to}
        params = {name: value for name, value in named.items() if value is not None}
        seen = self._turn.seen(operation.type, params, None, operation.ctx_wrapper)
        return await self._turn.adapter.arun(_Patch(seen), lambda _params: _awaited(edit(operation)))


def _turn_of(context: Any, params: Mapping[str, Any]) -> str:
    """Return what makes an id unique that a model's server reuses in every turn (``call_0``).

    It is the same before and after an approval. The SDK tells the number of the request in the run, but not the run: an
    equal call at the same position of another run of the session differs by its params.
    """
    usage = getattr(context, "usage", None)
    digest = blake2b(repr(params).encode("utf-8", "replace"), digest_size=6)
    return f"{getattr(usage, 'requests', 0)}-{digest.hexdigest()}"


def _noting(invoke: Any, noted: Noted) -> Any:
    """Return the function that invokes a tool, wrapped to record what the tool raises before the SDK makes it text."""
    run = invoke._invoke_tool_impl  # noqa: SLF001 - only here does the SDK show what was raised

    async def noting(context: Any, given: str) -> Any:
        with noted:
            return await run(context, given)

    copied = object.__new__(type(invoke))
    vars(copied).update(vars(invoke), _invoke_tool_impl=noting)
    return copied


async def _awaited(result: Any) -> Any:
    return await result if inspect.isawaitable(result) else result


def _joined(command: Any) -> str:
    return shlex.join(command) if isinstance(command, list) else str(command)


def _read(given: str) -> dict[str, Any]:
    """Return the arguments as the model gave them; anything but a JSON object is under ``input``."""
    try:
        found = json.loads(given) if given else {}
    except ValueError:
        found = given
    return found if isinstance(found, dict) else {"input": found}
