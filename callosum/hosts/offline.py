"""Handle a hook event without an answer from the gate: start the gate, decide by the tier table, spool the rest.

::

    hook.sh ── curl gave up ── answer ──┬── no gate: start one, and ask it if the call is risky
                                        ├── tier 0 to 2: runs, and is spooled in late.jsonl (hosts/hook_spool.py)
                                        └── tier 3, 4 or unknown: refused, in the host's format

This process lives for milliseconds, so it imports little beside ``json`` and ``socket``. It takes what it needs to know
about hosts from ``callosum.programs``.
"""

from __future__ import annotations

import json
import os
import sys
from time import monotonic

from callosum.hosts.refusal import GUARDED, REFUSED_CONNECTION, refusal
from callosum.launch import NEUTRAL, environment, recorded_path, serve_command
from callosum.programs import WITH_HOOKS
from callosum.sockets import HUNG_STATUS, note_answered, note_hung, stranger
from callosum.unclean import call_in, readings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final

TIMED_OUT: Final = 28
"""Exit code of curl if the gate did not answer in time."""
REFUSED_REQUEST: Final = 22
"""Exit code of curl if the gate rejected the request, for example because it was too long."""
NO_CURL: Final = frozenset((2, 4, 126, 127))
"""Exit codes of a curl without Unix sockets, and of a shell that cannot find or start curl."""
MOST: Final = 4_000_000
"""Length in bytes from which a payload is cut before it is sent again."""
START_SECONDS: Final = 8.0
"""Seconds that a call which changes something waits for a gate that is starting."""
ASK_SECONDS: Final = 1.0
_POLL: Final = 0.02
_LOG: Final = "server.log"
_NOT_FIRST: Final = 1
"""Exit code of a gate that finds another gate serving."""
_AGAIN: Final = 5.0
"""Seconds after a failed start in which an event that does not wait for the gate starts no other."""
IDLE: Final = 600


def main(arguments: list[str] | None = None) -> int:
    """Answer the hook event on standard input.

    ``arguments`` (None: those of the process) are the host, the state folder, the socket, the path and query to ask
    for, and the exit code of curl, with the gate's status and answer if it refused the request. If the gate is a server
    on another machine, the socket is "" and two arguments follow: the folder with the server's tier table and spool,
    and the server's address.

    Returns 0 with the host's format on standard output, or 2 with a reason on standard error if the call must not run.
    """
    host, state, path, target, status, *server = sys.argv[1:] if arguments is None else arguments
    folder, where = server or (state, f"state: {state}")
    status, _, answered = status.partition(" ")
    refused = _refused(answered.encode("utf-8", "replace"))
    if int(status) == TIMED_OUT:
        note_hung(path or os.path.join(folder, "server"))  # noqa: PTH118 - pathlib costs 5 ms of a start
    body = sys.stdin.buffer.read()
    try:
        (payload, *others), _, whole = readings(body)
        event = payload.get("hook_event_name")
    except (ValueError, AttributeError, RecursionError) as error:
        print(f"Callosum cannot read what {host} said, and nobody else can judge it: {error}", file=sys.stderr)  # noqa: T201
        return 2
    subscription = WITH_HOOKS[host].events.get(event) if host in WITH_HOOKS and isinstance(event, str) else None
    role = subscription.role if subscription else ""
    if server and role == "settings":
        return _changed(state, host, payload.get("file_path"))
    is_asking = role == "asks"
    tool, params = call_in(payload)
    tier = 0
    if is_asking:
        tiers = [_tier(state, folder, *call_in(one), payload.get("cwd")) for one in (payload, *others)]
        tier = max(*tiers, 0 if whole else 3)
    answer, asked = None, int(status) not in (REFUSED_CONNECTION, HUNG_STATUS, *NO_CURL)
    if path and (int(status) == REFUSED_CONNECTION or int(status) in NO_CURL):
        ends = monotonic() + (START_SECONDS if tier > 0 or role == "start" else 0)
        answer, why, asked = _bring_up(state, path, target, body, ends)
        refused = why if isinstance(why, _Refusal) else ""
        where = f"{why}; {where}" if why else where
    elif path and int(status) == REFUSED_REQUEST:  # ask for the reason, or with less
        from callosum.hosts.truncation import shortened  # noqa: PLC0415

        if len(body) > MOST:
            body = json.dumps({**payload, "tool_input": shortened(params)}).encode()
        answer, _, why = _ask(path, target, body)
        refused = why if isinstance(why, _Refusal) else ""
    if answer is None:
        from callosum.hosts.hook_spool import note_call, note_given_up, note_outcome  # noqa: PLC0415

        if is_asking and tier > (0 if refused else 2):
            answer = refusal(host, tier, tool, where, refused)
            if asked:  # the gate may still decide, or may have decided
                note_given_up(folder, target, host, payload, tool)
        elif is_asking:
            note_call(state, folder, target, host, payload, tier, refused)
        else:
            note_outcome(state, folder, target, host, payload)
    if answer and answer != b"{}":
        sys.stdout.buffer.write(answer + b"\n")
    return 0


class _Refusal(str):
    """Why a gate refused a request."""

    __slots__ = ()


def _refused(answered: bytes, wait: bytes = b"1") -> str:
    """Return why a gate refused a request: ``answered`` is the status, a blank and the body. ``""`` if it did not."""
    status, _, content = answered.partition(b" ")
    if not status.startswith(b"4"):
        return ""
    try:
        said = json.loads(content)
        error, at = str(said["error"])[:1000], str(said.get("at", ""))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        error, at = f"status {status[:3].decode()}", ""
    again = f" Try again in {int(wait) if wait.isdigit() else 1} s." if status[:3] in (b"408", b"429") else ""
    return _Refusal(f"{error}{f' ({at})' if at else ''}.{again}")


def _changed(state: str, host: str, path: object) -> int:
    """Print whether settings of this machine may take effect if the gate is on another machine. Return as ``main``."""
    import site  # noqa: PLC0415

    site.main()
    from pathlib import Path  # noqa: PLC0415 - no tool waits for this

    from callosum.hosts.adapters import adapter_of  # noqa: PLC0415
    from callosum.hosts.settings_guard import fault_of  # noqa: PLC0415

    reason = fault_of(Path(state), adapter_of(host), path if isinstance(path, str) else "")
    if reason:
        print(json.dumps({"decision": "block", "reason": reason}))  # noqa: T201
    return 0


# --- Decide by the tier table -------------------------------------------------------------------------


def _tier(state: str, folder: str, tool: str, params: Mapping[str, Any], cwd: object) -> int:
    from callosum.client.fallback import READS, UNKNOWN, load_table, runs_commands, tier_of  # noqa: PLC0415 - a call's alone

    try:
        table = load_table(os.path.join(folder, "fallback.json"))  # noqa: PTH118 - pathlib costs 5 ms of a start
    except (OSError, ValueError):
        table = READS
    tier = tier_of(table, tool, params)
    shell = tier >= UNKNOWN and runs_commands(tool)
    text = json.dumps([params, cwd], ensure_ascii=False).lower() if not shell and 0 < tier < UNKNOWN else ""
    if not shell and not any(name in text for name in (*GUARDED, os.path.basename(state).lower())):  # noqa: PTH119
        return tier  # nothing in it names the gate's files or a host's hook settings, which the table does not know
    try:
        judged = _tier_by_rules(state, tool, params, cwd, shell=shell)
    except Exception:  # noqa: BLE001 - after any failure the call counts as unknown and is refused
        return UNKNOWN
    if shell:
        return 0 if judged == 0 else max(UNKNOWN, judged)  # a line that only reads is no risk, any other counts as 3
    return max(tier, judged)


def _tier_by_rules(state: str, tool: str, params: Mapping[str, Any], cwd: object, *, shell: bool) -> int:
    """Return the call's tier by the rules, so that a host whose only tool is a shell can read without the gate.

    The rules take about 0.1 s to load and need packages that this process was started without.
    """
    import site  # noqa: PLC0415

    site.main()
    from callosum.client.fallback import UNKNOWN  # noqa: PLC0415
    from callosum.hosts.interactive import waits  # noqa: PLC0415
    from callosum.model import Call  # noqa: PLC0415
    from callosum.rulebook import Rulebook  # noqa: PLC0415
    from callosum.settings import load  # noqa: PLC0415

    command = params.get("command")
    if shell and (not isinstance(command, str) or waits(command)):
        return UNKNOWN
    # neither the settings of the host's working folder nor its variables affect how a call is classified
    settings = load({"state": state, "config": recorded_path(state, "config")}, environment(os.environ), NEUTRAL)
    rules = Rulebook.of(settings).current()
    return rules.classify(Call("offline", tool, params, cwd=cwd if isinstance(cwd, str) else None)).tier


# --- Ask the gate -------------------------------------------------------------------------------------


def _bring_up(state: str, path: str, target: str, body: bytes, ends: float) -> tuple[bytes | None, str, bool]:
    """Make sure that a gate is started, and ask it as soon as it answers.

    Returns its answer (None if there is none until ``ends``), why the process that listens is not asked, and whether a
    gate was asked.
    """
    answer, listens, why = _ask(path, target, body)
    if listens:
        return answer, why, not why
    try:
        if monotonic() >= ends and _tried(state):
            return None, "", False
        started = _start(state, path)
    except OSError:
        return None, "", False  # the state folder cannot be written: the tier table decides
    from time import sleep  # noqa: PLC0415

    while (remaining := ends - monotonic()) > 0:
        answer, listens, why = _ask(path, target, body, max(remaining, ASK_SECONDS))
        if listens:
            return answer, why, not why
        if started and (exit_status := os.waitpid(started, os.WNOHANG))[0]:
            if os.waitstatus_to_exitcode(exit_status[1]) != _NOT_FIRST:
                return None, "", False  # it cannot start; server.log says why
            started = 0
        sleep(_POLL)
    return None, "", False


def _ask(path: str, target: str, body: bytes, seconds: float = ASK_SECONDS) -> tuple[bytes | None, bool, str]:
    """Ask the gate at the socket.

    Returns its answer (None if there is none that can be used), whether a process listens, and why that process is not
    asked or refused the request.
    """
    import socket  # noqa: PLC0415 - not needed if curl found a hung gate

    from callosum.deadline import stamp  # noqa: PLC0415

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
        channel.settimeout(seconds)
        try:
            channel.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            return None, False, ""
        except OSError as error:
            return None, True, f"no connection to {path}: {error}"
        if why := stranger(channel, path):
            return None, True, why
        deadline, timeout_ms = stamp(seconds)
        limit = f"&timeoutMs={timeout_ms}{f'&deadline={deadline}' if deadline else ''}"
        head = (
            f"POST {target}{limit} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        try:
            channel.sendall(head.encode() + body)
            received = b""
            while piece := channel.recv(65536):
                received += piece
        except TimeoutError:
            note_hung(path)
            return None, True, ""
        except OSError:
            return None, True, ""
    note_answered(path)
    first, _, content = received.partition(b"\r\n\r\n")
    if first.startswith(b"HTTP/1.1 200 ") and _is_object(content):
        return content, True, ""
    line, _, headers = first.lower().partition(b"\r\n")
    wait = headers.partition(b"retry-after:")[2].partition(b"\r\n")[0].strip()
    return None, True, _refused(line.removeprefix(b"http/1.1 ")[:3] + b" " + content, wait)


def _is_object(content: bytes) -> bool:
    """Return True if the content is complete JSON. A host would take half an answer for a yes."""
    try:
        return isinstance(json.loads(content), dict)
    except (ValueError, RecursionError):
        return False


def _tried(state: str) -> bool:
    """Return True if a gate wrote to its log in the last seconds, so that not every event tries to start one."""
    from time import time  # noqa: PLC0415

    try:
        return time() - os.stat(os.path.join(state, _LOG)).st_mtime < _AGAIN  # noqa: PTH116, PTH118
    except FileNotFoundError:
        return False


def _start(state: str, path: str) -> int:
    """Start the local gate in its own session and return its pid. If two are started at once, only one serves."""
    os.makedirs(state, 0o700, exist_ok=True)  # noqa: PTH103
    log = os.path.join(state, _LOG)  # noqa: PTH118
    writing = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    return os.posix_spawn(
        sys.executable,
        serve_command(state, path, IDLE),
        environment(os.environ),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, writing, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )
