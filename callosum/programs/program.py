"""Define the description of a host, from which everything that depends on the host is derived.

A description is data: hooks read it in a process without packages, and the rules read it without touching a file.
Therefore this package imports nothing. Code that only one host needs is in ``callosum.hosts``, and the description
names it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path
    from typing import Any, Literal

    Role = Literal[
        "asks", "done", "failed", "batch", "denied", "prompt", "start", "child start", "stop", "child stop", "end",
        "settings", "said", "heard",
    ]  # fmt: skip
    Lines = Iterable[tuple[float, Mapping[str, Any]]]
    Known = Literal["id", "session and id", "session and tool"]


class HookSubscription:
    """One hook event of a host.

    ``role`` is the meaning of the event, which ``callosum.hosts.hook_adapter`` reads. ``matcher`` selects the tools for
    which the host calls the hook. ``reports``: the host does not wait for the hook. ``by_url``: the host can call a URL
    instead of the hook.
    """

    __slots__ = ("by_url", "matcher", "reports", "role")

    def __init__(self, role: Role, matcher: str | None = None, *, reports: bool = False, by_url: bool = True) -> None:
        self.role, self.matcher, self.reports, self.by_url = role, matcher, reports, by_url

    @property
    def can_stop(self) -> bool:
        """Return True if the event asks whether something may happen, so that a hook that fails must stop it."""
        return self.role in ("asks", "settings")


class Program:
    """Describe a program in which agents run. A property that a host lacks keeps the value given here."""

    # --- Program ---
    name: str
    """Name of the host, as in ``callosum install NAME``; also the default instance of its sessions."""
    title: str
    """Name that people use for the host."""
    program: str
    """File name of its executable, or of the script that an interpreter runs."""
    also: Sequence[str] = ()
    """Other names of its executable."""
    scripts: Sequence[str] = ()
    """Lower-case parts of the path of the script that an interpreter runs."""
    package: str = ""
    """Name of the package in its registry."""
    oldest: tuple[int, ...] = ()
    """First version in which the entries work."""
    older: str = ""
    """What versions before ``oldest`` do."""
    variables: tuple[str, ...] = ()
    """Prefixes of the environment variables that the host sets for the processes it starts."""
    profile: frozenset[str] = frozenset()
    """Variables with such a prefix that people set in their shell profile, so that they prove nothing."""

    # --- Settings ---
    folder: str
    """Name of its settings folder, in a home and in a project."""
    file: str
    """Settings file in that folder that holds the gate's entries."""
    folder_variable: str = ""
    """Variable that names another settings folder."""
    home_variable: str = ""
    """Variable that names another home."""
    guards: Sequence[str] = ()
    """Path suffixes that no call may change. A folder, with everything below it, ends with a slash."""

    # --- Hooks ---
    events: Mapping[str, HookSubscription] = {}
    """Hook events that the gate subscribes to, in the order of the settings. Empty for a host without hooks."""
    shell: str = ""
    """Name in hooks of the tool that runs commands."""
    looks: frozenset[str] = frozenset()
    """Tools that only read and whose end another event reports."""
    starts: frozenset[str] = frozenset()
    """Tools that start a sub-agent."""
    background: str = ""
    """Argument that makes a command continue in the background."""
    run_field: str = ""
    """Field of a payload that names the turn."""
    noise: frozenset[str] = frozenset()
    """Fields, beside the usual ones, that all events have and that the journal does not need."""
    answer_field: str = "last_assistant_message"
    """Field with the model's answer in the event at the end of a turn."""
    has_call_ids: bool = True
    """True if hooks name a call by an id. Otherwise a report finds its call by tool and params."""
    informs: frozenset[Role] = frozenset()
    """Roles of the events at which a hook can add text to the model's context."""
    replaces: str = ""
    """Field of an answer in which a hook returns other input for a call, or "" if it can return none."""
    replaces_with_allow: bool = False
    """True if the host accepts other input only together with a permission.

    The gate then returns other input only in a session whose mode permits every call.
    """
    commands_outlive_turns: bool = False
    """True if a command may still run when its turn has ended."""
    types_unseen: bool = False
    """True if the host types into running programs without calling a hook."""
    words_apart: bool = False
    """True if the host starts the hook with a list of words instead of a shell command line."""
    powershell: bool = False
    """True if the shell on Windows is PowerShell instead of cmd."""
    timeout: int
    """Time that the host waits for the hook, in the host's unit. It is longer than the hook takes."""
    entry: Mapping[str, Any] = {}
    """Additional fields of every entry."""
    entry_that_stops: Mapping[str, Any] = {}
    """Additional fields of the entries whose hook must stop the host if it fails."""
    asks_urls: bool = False
    """True if the host can call a URL instead of the hook."""

    # --- Transcripts ---
    known: Known = "session and id"
    """How a call in a transcript is found in the journal.

    That is by its id if ids are unique, by session and id, or, without ids, by counting the calls of a tool that its
    session made.
    """
    transcripts: str = ""
    """Folder of its transcripts in its settings folder, or "" if it has none that can be read."""
    tells_refusals: bool = False
    """True if its transcripts show that a person refused a call."""
    window: int = 0
    """Number of tokens in its models' contexts if the host assumes the same number for all, otherwise 0."""

    # --- Text after an installation ---
    since: str = "from its next session on"
    """When the host starts to ask the gate."""
    then: tuple[str, ...] = ()
    """What the user has to know or do, one sentence each."""
    elsewhere: str = ""
    """How a host without hooks is set up to ask a server for several machines."""

    # --- Code for this host, as MODULE:NAME ---
    hooks: str = "callosum.hosts.hook_adapter:HookAdapter"
    """Reads payloads and renders answers."""
    transcript: str = ""
    """Reads the lines of its transcripts; "" for a host without transcripts."""
    checks: str = "callosum.hosts.inspection:HostInspection"
    """Inspects the host."""
    site: str = "callosum.hosts.setup:hooks_site"
    """Adds the gate to its settings."""

    @property
    def asks(self) -> str:
        """Return the event in which the host asks whether a tool may run, or "" for a host without hooks."""
        return next((event for event, on in self.events.items() if on.role == "asks"), "")

    @property
    def tends(self) -> list[str]:
        """Return the events at which a session starts or receives a prompt."""
        return [event for event, on in self.events.items() if on.role in ("start", "prompt")]

    def settings_folder(self, home: Path, environ: Mapping[str, str]) -> Path:
        """Return the folder of the user's settings."""
        if named := environ.get(self.folder_variable):
            return type(home)(named)
        other = environ.get(self.home_variable)
        return (type(home)(other) if other else home) / self.folder

    def settings_path(self, home: Path, environ: Mapping[str, str], project: Path | None = None) -> Path:
        """Return the settings file of the user, or of a project."""
        folder = self.settings_folder(home, environ) if project is None else project / self.folder
        return folder / self.file

    def denial(self, reason: str) -> dict[str, Any]:
        """Return what the hook prints so that a call does not run."""
        said = {"hookEventName": self.asks, "permissionDecision": "deny", "permissionDecisionReason": reason}
        return {"hookSpecificOutput": said}

    def replacement(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the hook prints so that a call runs with other input, within ``hookSpecificOutput``."""
        allow = {"permissionDecision": "allow"} if self.replaces_with_allow else {}
        return {**allow, self.replaces: params}

    def transcript_of(self, session: str, agent: str | None) -> str:
        """Return the file of a session or sub-agent below ``transcripts``. ``*`` stands for any folder."""
        raise NotImplementedError

    def refused(self, lines: Lines, session: str, call_id: str, since: float) -> bool:
        """Return whether the transcript says that a person refused a call before it ran.

        ``lines`` are those that name the call, newest first, each with its moment (Unix seconds, as ``since``).
        """
        raise NotImplementedError
