"""What an agent may ask the gate, and the answers as sentences that it understands.

Names and keys of others are data: they are quoted, so that no session instructs another through the gate.
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
"""Most lines of an answer that lists."""
MAX_WAIT: Final = 55
"""Longest wait, in seconds: clients give a tool a minute."""
LONGEST: Final = 3600
"""Longest lease that may be taken here, in seconds."""
_FIRST_PAUSE: Final = 0.1
_LAST_PAUSE: Final = 1.0


class ToolHandlers:
    """Answers for one host's sessions. ``host`` is the process with which its leases end, ``cwd`` their folder.

    ``now`` (Unix seconds), ``clock`` and ``sleep`` are for tests.
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
        """What the other sessions have in hand and did lately."""
        wanted = [self._spelled(key) for key in keys]
        found = self._client.brief(actor.instance, actor.session, keys=wanted, cwd=self._cwd, namespace=self._namespace)
        return found.text or "No other session has anything in hand, or did anything lately, that concerns you."

    def who_holds(self, actor: CallerIdentity, key: str) -> str:
        """Who has a lease on a key, waits for it, or left something open on it, and who acted on it last."""
        key = self._spelled(key)
        status = self._client.status(key, namespace=self._namespace)
        me, now = _name(actor), self._now()
        lines = [_held(one, me, "has a lease on", now) for one in status.locks]
        lines += [_held(one, me, "waits for", now) for one in status.waiting]
        lines += [_held(one, me, "left open, with an outcome that nobody knows,", now) for one in status.unknown]
        if not lines:
            lines = [f"Nobody holds {quote(escaped(key), 160)} now."]
        lines += [_done(one, me, now) for one in status.recent_actions[:3]]
        return _told(lines)

    def take(self, actor: CallerIdentity, key: str, seconds: int) -> str:
        """Takes a lease on a key, or says who has it."""
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
        """Gives a lease back that was taken here."""
        key = self._spelled(key)
        report = self._client.release(actor.instance, key, session=actor.session, namespace=self._namespace)
        if report.ok:
            return f"Released {quote(escaped(key), 160)}."
        return f"You hold no lease on {quote(escaped(key), 160)}: there was nothing to release."

    def wait_for(self, actor: CallerIdentity, key: str, seconds: int, *, take: bool) -> str:
        """Waits until no other session holds a key, and takes it then if that is wished."""
        key = self._spelled(key)
        ends = self._clock() + seconds
        pause = _FIRST_PAUSE
        while True:
            if take:
                result = self._lock(actor, key, 300)
                free, told = result.acquired, self._taken(key, 300, result)
            else:
                free, told = self._free(actor, key)
            left = ends - self._clock()
            if free:
                return told
            if left <= 0:
                return f"Still not free after {seconds} s. {told}"
            self._sleep(min(pause, left))
            pause = min(2 * pause, _LAST_PAUSE)

    def _spelled(self, key: str) -> str:
        return canonical(key, self._cwd)

    def _free(self, actor: CallerIdentity, key: str) -> tuple[bool, str]:
        me, now = _name(actor), self._now()
        held = self._client.status(key, namespace=self._namespace).locks
        lines = [_held(one, me, "has a lease on", now) for one in held if one.instance != me]
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
    """A key in the spelling that calls have it in; a bare path is a file's, relative to ``cwd``.

    Raises ``ConfigError`` for one that names nothing, or several things.
    """
    from callosum.rules import keys  # noqa: PLC0415 - a wrap starts without the rules

    key = key.strip()
    if key.startswith("/"):
        key = f"file:{key}"
    if ":" not in key:
        raise ConfigError('expected a key such as "file:/repo/a.py" or "email:alice@example.com"', at="key")
    if key.endswith("/") or "|" in key:  # copied from an answer: only a rule makes what covers others, or a part
        return key
    found = keys.canonical(key, cwd)
    if len(found) > 1:
        raise ConfigError(f"expected one key, got {len(found)}: take them one after the other", at="key")
    return found[0] if found else key


def _name(actor: CallerIdentity) -> str:
    return f"{actor.instance}/{actor.session}"


def _who(instance: str, me: str) -> str:
    return "This session" if instance == me else name(instance)


def _held(one: Holding, me: str, does: str, now: float) -> str:
    key = quote(escaped(one.context_key), 160) if one.context_key else "something"
    left = f", {ago(one.expires - now)} left" if one.expires > now else ""
    what = f": {one.summary}" if one.summary else ""
    return f"{_who(one.instance, me)} {does} {key} ({name(one.tool)}, begun {since(now - one.at)}{left}){what}."


def _done(one: RecentAction, me: str, now: float) -> str:
    ended = "not reported yet" if one.state is State.OPEN else str(one.state)
    what = f": {one.summary}" if one.summary else ""
    return f"{_who(one.instance, me)} acted on it {since(now - one.at)} ({name(one.tool)}, {ended}){what}."


def _in_the_way(conflict: Conflict | None, shown: str) -> str:
    if conflict is None:
        return f"another session holds {shown}"
    left = f", for at most {ago(conflict.expires_in)} more" if conflict.expires_in else ""
    return f"{name(conflict.instance)} holds {shown} ({name(conflict.tool)}, begun {since(conflict.age)}{left})"


def _told(lines: list[str]) -> str:
    more = len(lines) - LINES
    return "\n".join([*lines[:LINES], *([f"({more} more.)"] if more > 0 else [])])
