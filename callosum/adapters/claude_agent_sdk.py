"""Claude Agent SDK: ``callosum_hooks`` for one agent's options, ``install`` for all options that are made later.

::

    options = ClaudeAgentOptions(hooks=callosum_hooks(gate))

The session is the SDK's (``session_id``) and the instance ``claude-code``, as in the hooks that ``callosum install
claude-code`` writes. If a program loads these hooks too (``setting_sources``), both ask about the same call of the same
session, which is decided once. With an ``instance`` or ``session`` of its own, such a program would conflict with
itself. A sub-agent has a session of its own, whose parent is that session.

Claude Code puts ``PreToolUse:TOOL hook error: `` before the sentence of a refusal. For a call that may run, the hook
returns no opinion, so the program's own permission rules still decide. The hook has ``on_failure="block"``: if the hook
itself fails, the tool does not run.
"""

from __future__ import annotations

import asyncio
import functools
import re
import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias, Unpack
from weakref import WeakKeyDictionary

from claude_agent_sdk import ClaudeAgentOptions, HookMatcher

from callosum.adapters._seams import put, untouched
from callosum.adapters.core import Adapter, Attempt, FrameworkCall, KeptResult, Options, Refused, RunningCall
from callosum.gate import Gate

Payload: TypeAlias = Mapping[str, Any]
Answer: TypeAlias = dict[str, Any]
Matchers: TypeAlias = dict[Any, list[HookMatcher]]
_Actor: TypeAlias = tuple[str, str]
"""A session's id and a sub-agent's id, which is empty for the main agent."""

_INSTANCE: Final = "claude-code"
"""The instance that Claude Code's own hooks name."""
_READ_CALLS: Final = 80
"""Number of calls of an actor whose results the model has read, as kept."""
_ACTORS: Final = 256
"""Number of actors whose read calls are kept."""
_SPARE_SECONDS: Final = 60.0
"""Seconds that a hook may take beyond the time that a call waits in the queue."""
_LONGEST_DENIAL: Final = 2_000
"""Length in characters below which a text may be a denial. A tool's result may be longer and contain any word."""
_DENIED: Final = re.compile(
    r"needs? approval|requires? (?:approval|permission)|requested permissions?|was blocked|\bdenied\b|was rejected"
    r"|doesn't want to|not allowed|hook error|haven't granted",
    re.IGNORECASE,
)
"""Matches what Claude Code tells its model about a call that a user, a rule or a hook did not permit."""
_LOST: Final = re.compile(r"\btimed out\b|\btimeout\b|\baborted\b|\bconnection (?:reset|closed|lost)\b", re.IGNORECASE)
"""Matches errors that leave open whether the tool has acted."""


class _ToolError(Exception):
    """An error of a tool, of which Claude Code tells only the text."""


class _Hooks:
    """The gate's hooks in one set of options, which may serve several conversations."""

    def __init__(self, gate: Gate, options: Options) -> None:
        self._adapter = Adapter(gate, **options)
        self._timeout = options.get("wait", 0) + _SPARE_SECONDS
        self._open: dict[tuple[_Actor, str], RunningCall[Answer]] = {}
        self._agents: dict[_Actor, RunningCall[Answer]] = {}
        """The calls that started a sub-agent in the background, by that sub-agent."""
        self._read: OrderedDict[_Actor, deque[str]] = OrderedDict()
        self._connections: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
        """The sessions of each connection to Claude Code."""

    def added_to(self, hooks: Mapping[Any, Iterable[HookMatcher]] | None) -> Matchers:
        """Return the hooks with the gate's behind them."""
        merged: Matchers = {event: list(matchers) for event, matchers in (hooks or {}).items()}
        asks = HookMatcher(hooks=[self.asks], timeout=self._timeout, on_failure="block")
        merged.setdefault("PreToolUse", []).append(asks)
        for event, hook in (
            ("PostToolUse", self.done),
            ("PostToolUseFailure", self.failed),
            ("PostToolBatch", self.batch),
            ("Stop", self.stop),
            ("SubagentStop", self.stop),
        ):
            merged.setdefault(event, []).append(HookMatcher(hooks=[hook], timeout=self._timeout))
        return merged

    async def asks(self, payload: Payload, tool_use_id: str | None, _context: object) -> Answer:
        """Ask the gate about a call."""
        actor, id = _actor_of(payload), tool_use_id or str(payload["tool_use_id"])
        self._watch(actor[0])
        attempt = _ToolCall(payload, id, tuple(self._read.get(actor, ())))
        begun = await self._adapter.abegin(attempt)
        if isinstance(begun, Refused):
            return _denial(begun.sentence)
        if isinstance(begun, KeptResult):
            return _denial(f"[Callosum] This call is already done: {begun.result.get('response')}")
        self._open[actor, id] = begun
        if begun.params is None:
            return {}
        return _says("PreToolUse", permissionDecision="allow", updatedInput=dict(begun.params))

    async def done(self, payload: Payload, tool_use_id: str | None, _context: object) -> Answer:
        """Report a call that returned."""
        actor = _actor_of(payload)
        running = self._open.pop((actor, tool_use_id or str(payload["tool_use_id"])), None)
        if running is None:
            return {}
        warning, response = running.warning, payload.get("tool_response")
        known = response if isinstance(response, Mapping) else {}
        if known.get("status") == "async_launched" and known.get("agentId"):
            self._agents[actor[0], str(known["agentId"])] = running  # ends with the sub-agent
        elif known.get("interrupted") is True or known.get("backgroundTaskId"):
            await running.afail(asyncio.CancelledError("it was interrupted or runs on in the background"))
        else:
            await running.aend({"response": response})
        return _says("PostToolUse", additionalContext=warning) if warning else {}

    async def failed(self, payload: Payload, tool_use_id: str | None, _context: object) -> Answer:
        """Report a call that failed or was interrupted."""
        running = self._open.pop((_actor_of(payload), tool_use_id or str(payload["tool_use_id"])), None)
        if running is None:
            return {}
        warning, error = running.warning, str(payload.get("error") or "failed")
        if payload.get("is_interrupt") is True:
            await running.afail(asyncio.CancelledError(error))
        elif _LOST.search(error[:_LONGEST_DENIAL]):
            await running.afail(TimeoutError(error))
        else:
            await running.afail(_ToolError(error))
        return _says("PostToolUseFailure", additionalContext=warning) if warning else {}

    async def batch(self, payload: Payload, _tool_use_id: str | None, _context: object) -> Answer:
        """Note that the model reads the results of a turn, and end the turn's calls that had no event of their own."""
        actor = _actor_of(payload)
        read = self._read.setdefault(actor, deque(maxlen=_READ_CALLS))
        self._read.move_to_end(actor)
        while len(self._read) > _ACTORS:
            self._read.popitem(last=False)
        for call in payload.get("tool_calls") or ():
            id, response = str(call.get("tool_use_id")), call.get("tool_response")
            read.append(id)
            running = self._open.pop((actor, id), None)
            if running is None:
                continue
            if isinstance(response, str) and len(response) < _LONGEST_DENIAL and _DENIED.search(response):
                await asyncio.to_thread(running.cancel)
            else:
                await running.afail(asyncio.CancelledError("its end was not reported"))
        return {}

    async def stop(self, payload: Payload, _tool_use_id: str | None, _context: object) -> Answer:
        """End the calls that a turn, or a sub-agent, has left open."""
        actor = _actor_of(payload)
        if (agent := self._agents.pop(actor, None)) is not None:
            await agent.aend({"response": payload.get("last_assistant_message")})
        await self._give_up(lambda one: one == actor)
        return {}

    def _watch(self, session: str) -> None:
        """Hear when the connection to Claude Code is closed: calls that run then have no event of their own."""
        connection = _connection()
        if connection is None:
            return
        if connection not in self._connections:
            self._connections[connection] = set()
            close = connection.close

            @functools.wraps(close)
            async def closed() -> None:
                try:
                    await close()
                finally:
                    sessions = self._connections.pop(connection, set())
                    await asyncio.shield(self._give_up(lambda one: one[0] in sessions))

            connection.close = closed
        self._connections[connection].add(session)

    async def _give_up(self, is_over: Callable[[_Actor], bool]) -> None:
        """End calls whose outcome nobody will report."""
        left = [self._open.pop(name) for name in list(self._open) if is_over(name[0])]
        left += [self._agents.pop(actor) for actor in list(self._agents) if actor[1] and is_over((actor[0], ""))]
        for running in left:
            await running.afail(asyncio.CancelledError("its end was not reported"))


class _ToolCall(Attempt[Answer]):
    def __init__(self, payload: Payload, id: str, read: tuple[str, ...]) -> None:
        self._payload, self._id, self._read = payload, id, read

    def seen(self) -> FrameworkCall:
        payload = self._payload
        session, agent = _actor_of(payload)
        return FrameworkCall(
            tool=str(payload["tool_name"]),
            params=payload["tool_input"],
            call_id=self._id,
            read=self._read,
            thread=session,
            instance=_INSTANCE,
            agent=agent or None,
            run=payload.get("prompt_id"),
            # Claude Code takes other input only with an "allow", which must not skip the program's own permissions
            rewrite=payload.get("permission_mode") == "bypassPermissions",
        )

    def warned(self, result: Answer, sentence: str) -> Answer:  # noqa: ARG002 - the hook's answer carries it
        return result

    def said(self, result: Answer) -> Any:
        return result["response"]


def callosum_hooks(
    gate: Gate, *, hooks: Mapping[Any, Iterable[HookMatcher]] | None = None, **options: Unpack[Options]
) -> Matchers:
    """Return the hooks that put the gate around every tool: built-in ones, those of MCP servers, and sub-agents'.

    ``hooks`` are the program's own, which are kept. ``options`` are those of ``callosum.adapters.core.Options``.
    """
    return _Hooks(gate, options).added_to(hooks)


def install(gate: Gate, **options: Unpack[Options]) -> Callable[[], None]:
    """Put the gate around the tools of all options that are made from now on; return what takes it away.

    Options that have ``callosum_hooks`` of their own keep those. Called again, it replaces its earlier gate.
    """
    shared = _Hooks(gate, options)

    init = untouched(ClaudeAgentOptions, "__init__")

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        init(self, *args, **kwargs)
        if not _is_gated(self.hooks):
            self.hooks = shared.added_to(self.hooks)

    return put({(ClaudeAgentOptions, "__init__"): __init__})


def _is_gated(hooks: Mapping[Any, Iterable[HookMatcher]] | None) -> bool:
    matchers = (hooks or {}).get("PreToolUse", ())
    return any(isinstance(getattr(hook, "__self__", None), _Hooks) for one in matchers for hook in one.hooks)


def _actor_of(payload: Payload) -> _Actor:
    return str(payload["session_id"]), str(payload.get("agent_id") or "")


def _says(event: str, **output: Any) -> Answer:
    return {"hookSpecificOutput": {"hookEventName": event, **output}}


def _denial(sentence: str) -> Answer:
    return _says("PreToolUse", permissionDecision="deny", permissionDecisionReason=sentence)


def _connection() -> Any:
    """Return the SDK's object that runs this hook; no hook tells that it was closed. None if it is not found."""
    frame = sys._getframe()  # noqa: SLF001 - the SDK hands nothing to a hook that leads to the object
    while frame is not None:
        owner = frame.f_locals.get("self")
        if hasattr(owner, "hook_callbacks") and hasattr(owner, "close"):
            return owner
        frame = frame.f_back  # type: ignore[assignment]
    return None
