"""Answer the questions that an agent asks the gate through MCP tools, in sentences for a model.

Names and keys of other sessions are data. They are quoted, so that no session instructs another through the gate.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from callosum.characters import escaped
from callosum.errors import ConfigError
from callosum.hosts.mcp.identity import CallerIdentity
from callosum.model import DEFAULT_NAMESPACE, Conflict, Host, LockResult, State
from callosum.policy.sentence import ago, name, since
from callosum.redact import quote

if TYPE_CHECKING:
    from callosum.client.client import CallosumClient
    from callosum.model import Holding, RecentAction

LINES: Final = 12
"""Maximum number of lines in an answer that lists things."""
MAX_WAIT: Final = 55
"""Maximum wait in seconds; clients give a tool a minute."""
LONGEST: Final = 3600
"""Maximum duration in seconds of a lease that is taken here."""
_FIRST_PAUSE: Final = 0.1
_LAST_PAUSE: Final = 1.0


class ToolHandlers:
    """Answer for the sessions of one host.

    Leases end with the process ``host``. Relative paths start in ``cwd``. ``now`` (Unix seconds), ``clock`` and
    ``sleep`` are for tests.
    """

    def __init__(
        self,
        client: CallosumClient,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        host: Host | None = None,
        cwd: str | None = None,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._host = host
        self._cwd = cwd
        self._now = now
        self._clock = clock
        self._sleep = sleep

    def others(self, actor: CallerIdentity, keys: Iterable[str] = ()) -> str:
        """Return what the other sessions are doing and did recently."""
        wanted = [self._spelled(key) for key in keys]
        brief = self._client.brief(actor.instance, actor.session, keys=wanted, cwd=self._cwd, namespace=self._namespace)
        return brief.text or "No other session has anything in hand, or did anything lately, that concerns you."

    def who_holds(self, actor: CallerIdentity, key: str) -> str:
        """Return who has a lease on a key, waits for it or left an unknown outcome on it, and who acted on it last."""
        key = self._spelled(key)
        status = self._client.status(key, namespace=self._namespace)
        me, now = _name(actor), self._now()
        lines = [_held(holding, me, "has a lease on", now) for holding in status.locks]
        lines += [_held(holding, me, "waits for", now) for holding in status.waiting]
        lines += [
            _held(holding, me, "left open, with an outcome that nobody knows,", now) for holding in status.unknown
        ]
        if not lines:
            lines = [f"Nobody holds {quote(escaped(key), 160)} now."]
        lines += [_done(holding, me, now) for holding in status.recent_actions[:3]]
        return _told(lines)

    def take(self, actor: CallerIdentity, key: str, seconds: int) -> str:
        """Take a lease on a key, or say who has it."""
        result = self._lock(actor, self._spelled(key), seconds)
        return self._taken(key, seconds, result)

    def _taken(self, key: str, seconds: int, result: LockResult) -> str:
        shown = quote(escaped(self._spelled(key)), 160)
        if result.acquired:
            return (
                f"You have the lease on {shown} for {seconds} s: other sessions are held off from grave actions on it "
                "and told of you before others. Take it again to keep it longer; release it when you are done."
            )
        return f"Not taken: {_in_the_way(result.conflict, shown)}. Wait for it (wait_for), or do something else first."

    def release(self, actor: CallerIdentity, key: str) -> str:
        """Release a lease that was taken here."""
        key = self._spelled(key)
        report = self._client.release(actor.instance, key, session=actor.session, namespace=self._namespace)
        if report.ok:
            return f"Released {quote(escaped(key), 160)}."
        return f"You hold no lease on {quote(escaped(key), 160)}: there was nothing to release."

    def wait_for(self, actor: CallerIdentity, key: str, seconds: int, *, take: bool) -> str:
        """Wait until no other session holds a key. With ``take``, take the lease then."""
        key = self._spelled(key)
        ends = self._clock() + seconds
        pause = _FIRST_PAUSE
        while True:
            if take:
                result = self._lock(actor, key, 300)
                free, sentence = result.acquired, self._taken(key, 300, result)
            else:
                free, sentence = self._free(actor, key)
            remaining = ends - self._clock()
            if free:
                return sentence
            if remaining <= 0:
                return f"Still not free after {seconds} s. {sentence}"
            self._sleep(min(pause, remaining))
            pause = min(2 * pause, _LAST_PAUSE)

    def _spelled(self, key: str) -> str:
        return canonical(key, self._cwd)

    def _free(self, actor: CallerIdentity, key: str) -> tuple[bool, str]:
        me, now = _name(actor), self._now()
        held = self._client.status(key, namespace=self._namespace).locks
        lines = [_held(holding, me, "has a lease on", now) for holding in held if holding.instance != me]
        return (False, _told(lines)) if lines else (True, f"No other session holds {quote(escaped(key), 160)} now.")

    def _lock(self, actor: CallerIdentity, key: str, seconds: int) -> LockResult:
        return self._client.lock(
            actor.instance,
            key,
            ttl=float(seconds),
            session=actor.session,
            namespace=self._namespace,
            host=self._host,
        )


def canonical(key: str, cwd: str | None = None) -> str:
    """Return a key in the form that calls use. A bare path is a file's, relative to ``cwd``.

    Raises: ``ConfigError`` for text that names no key or several keys.
    """
    from callosum.rules import keys  # noqa: PLC0415 - a wrap starts without the rules

    key = key.strip()
    if key.startswith("/"):
        key = f"file:{key}"
    if ":" not in key:
        raise ConfigError('expected a key such as "file:/repo/a.py" or "email:alice@example.com"', at="key")
    if key.endswith("/") or "|" in key:  # copied from an answer; only rules make keys of trees and facets
        return key
    canonical_keys = keys.canonical(key, cwd)
    if len(canonical_keys) > 1:
        raise ConfigError(f"expected one key, got {len(canonical_keys)}: take them one after the other", at="key")
    return canonical_keys[0] if canonical_keys else key


def _name(actor: CallerIdentity) -> str:
    return f"{actor.instance}/{actor.session}"


def _who(instance: str, me: str) -> str:
    return "This session" if instance == me else name(instance)


def _held(holding: Holding, me: str, does: str, now: float) -> str:
    key = quote(escaped(holding.context_key), 160) if holding.context_key else "something"
    left = f", {ago(holding.expires - now)} left" if holding.expires > now else ""
    what = f": {holding.summary}" if holding.summary else ""
    begun = since(now - holding.at)
    return f"{_who(holding.instance, me)} {does} {key} ({name(holding.tool)}, begun {begun}{left}){what}."


def _done(action: RecentAction, me: str, now: float) -> str:
    ended = "not reported yet" if action.state is State.OPEN else str(action.state)
    what = f": {action.summary}" if action.summary else ""
    return f"{_who(action.instance, me)} acted on it {since(now - action.at)} ({name(action.tool)}, {ended}){what}."


def _in_the_way(conflict: Conflict | None, shown: str) -> str:
    if conflict is None:
        return f"another session holds {shown}"
    left = f", for at most {ago(conflict.expires_in)} more" if conflict.expires_in else ""
    return f"{name(conflict.instance)} holds {shown} ({name(conflict.tool)}, begun {since(conflict.age)}{left})"


def _told(lines: list[str]) -> str:
    more = len(lines) - LINES
    return "\n".join([*lines[:LINES], *([f"({more} more.)"] if more > 0 else [])])
