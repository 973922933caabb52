"""Tell apart two processes of a host that have the same session open, such as one resumed in two terminals.

The first keeps the host's name for the session. A second live process gets ``SESSION~PID-STARTED``, an actor of its own
that inherits no read marks. ``session_of`` and ``callosum.policy.admit.HOST_SESSION`` lead back to the host's name.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from callosum.hosts.payload import name_at
from callosum.process import alive, ancestors, process_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from callosum.hosts.events import HostIdentity
    from callosum.hosts.hook_adapter import HookAdapter
    from callosum.model import Host

MAX_SESSIONS: Final = 4096
"""Maximum number of sessions whose processes are remembered. The session heard from least recently is dropped first."""


class Terminals:
    """Remember the processes in which each session is open. Any thread may call it."""

    def __init__(self) -> None:
        self._suffixes: OrderedDict[tuple[str, str, str], dict[Host, str]] = OrderedDict()
        """What each process adds to the session's name, by namespace, instance and session."""
        self._lock = threading.Lock()

    def named_apart(
        self, adapter: HookAdapter, payload: Mapping[str, Any], identity: HostIdentity, process: Host | None
    ) -> Mapping[str, Any]:
        """Return the payload with the name of the actor as its session id.

        Only the start of a session shows that a process has opened it: an unknown process without one, such as a
        wrapper that lives for one hook, acts as the first. A process and its descendants are one actor. If ``process``
        is None, the payload stays as it is.

        Raises: ``ConfigError`` if the payload names no session.
        """
        if process is None:
            return payload
        event = adapter.host.events.get(str(payload.get("hook_event_name")))
        role, session = event.role if event else "heard", name_at(payload, "session_id")
        key = identity.namespace, identity.instance, session
        with self._lock:
            suffixes = self._suffixes.setdefault(key, {})
            self._suffixes.move_to_end(key)
            suffix = suffixes.get(process)
            if suffix is None and (role == "start" or not suffixes):
                open_in = {one: added for one, added in suffixes.items() if alive(one)}
                own = f"~{process_name(process)}" if "" in open_in.values() else ""
                suffix = next((added for one, added in open_in.items() if not _apart(one, process)), own)
                self._suffixes[key] = suffixes = {**open_in, process: suffix}
            if role == "end":
                suffixes.pop(process, None)
            if not suffixes:
                del self._suffixes[key]
            while len(self._suffixes) > MAX_SESSIONS:
                self._suffixes.popitem(last=False)
        return {**payload, "session_id": f"{session}{suffix}"} if suffix else payload


def session_of(name: str) -> str:
    """Return the host's name for the session of an actor: without a second process and a sub-agent."""
    return name.partition(":")[0].partition("~")[0]


def _apart(one: Host, other: Host) -> bool:
    """Return True if neither process descends from the other."""
    return one != other and one not in ancestors(other.pid) and other not in ancestors(one.pid)
