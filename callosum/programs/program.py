"""What a description of a host says: everything that has to know the host derives it from here.

A description is data: hooks read it in a process without packages, the rules without touching a file. So this package
imports nothing. Code that only one host needs lies in ``callosum.hosts``, and the description names it.
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
        """Whether the event asks if something may happen, so that a hook that fails must stop it."""
        return self.role in ("asks", "settings")


class Program:
    """A program in which agents live. What a host has not, keeps the value that stands here."""

    # --- the program ---
    name: str
    """The host's name, as in ``callosum install NAME``; also the instance of its sessions where nobody says another."""
    title: str
    """What people call the host."""
    program: str
    """The file name of its executable, or of the script that an interpreter runs."""
    also: Sequence[str] = ()
    """Further names of its executables."""
    scripts: Sequence[str] = ()
    """Parts of the path of the script that an interpreter runs, in lower case."""
    package: str = ""
    """Its name in the registry from which it is installed."""
    oldest: tuple[int, ...] = ()
    """The first version in which the entries hold."""
    older: str = ""
    """What versions before it do."""
    variables: tuple[str, ...] = ()
    """Prefixes of the environment variables that it sets for the processes it starts."""
    profile: frozenset[str] = frozenset()
    """Variables with such a prefix that people put into their own shell profile: they prove nothing."""

    # --- its settings ---
    folder: str
    """Its folder in a home, and in a project."""
    file: str
    """The settings file in that folder that takes the gate's entries."""
    folder_variable: str = ""
    """The variable that names another folder in its place."""
    home_variable: str = ""
    """The variable that names another home."""
    guards: Sequence[str] = ()
    """Ends of paths that no call may change; a folder, with all below it, ends with a slash."""

    # --- its hooks ---
    events: Mapping[str, HookSubscription] = {}
    """The hook events that the gate takes part in, in the order of the settings; none for a host without hooks."""
    shell: str = ""
    """What hooks call the tool that runs commands."""
    looks: frozenset[str] = frozenset()
    """Tools that only look, whose end another event tells."""
    starts: frozenset[str] = frozenset()
    """Tools that start a sub-agent."""
    background: str = ""
    """The argument that has a command go on behind its answer."""
    run_field: str = ""
    """The field of a payload that names the turn."""
    noise: frozenset[str] = frozenset()
    """Fields that all events have and that the journal does not need, beside the usual ones."""
    answer_field: str = "last_assistant_message"
    """The field of the end of a turn with what the model answered."""
    has_call_ids: bool = True
    """Whether hooks name a call by an id; without, a report finds its call by tool and params."""
    informs: frozenset[Role] = frozenset()
    """At which events a hook can put something into the model's context."""
    replaces: str = ""
    """The field of an answer in which a hook returns other input for a call; "" where it can return none."""
    replaces_with_allow: bool = False
    """Whether the host takes other input only together with a permission. Then the gate returns none, except in a
    session whose mode permits every call."""
    commands_outlive_turns: bool = False
    """Whether a command may still run when its turn has ended."""
    types_unseen: bool = False
    """Whether the host types into programs that run without calling a hook."""
    words_apart: bool = False
    """Whether the host starts the hook with a list of words, in place of a line of a shell."""
    powershell: bool = False
    """Whether that shell is PowerShell on Windows, in place of cmd."""
    timeout: int
    """How long the host waits for the hook, in the host's unit: longer than the hook takes."""
    entry: Mapping[str, Any] = {}
    """What else an entry says."""
    entry_that_stops: Mapping[str, Any] = {}
    """What else an entry says where a hook that fails must stop what the host asks about."""
    asks_urls: bool = False
    """Whether the host can call an address in place of the hook."""

    # --- its transcripts ---
    known: Known = "session and id"
    """By what a call in a transcript is found in the journal: its id alone where that is unique, that with its session,
    or where hooks have no ids by how many of a tool its session made."""
    transcripts: str = ""
    """The folder of its transcripts in its settings folder; "" where it has none that can be read."""
    tells_refusals: bool = False
    """Whether its transcripts say that a person refused a call."""
    window: int = 0
    """Number of tokens that its models' contexts hold, where the host takes all of them for equal; 0: it does not."""

    # --- what people read after an installation ---
    since: str = "from its next session on"
    """When it begins to ask."""
    then: tuple[str, ...] = ()
    """What there is to know or to do, one sentence each."""
    elsewhere: str = ""
    """How a host without hooks is set up to ask a server of several machines."""

    # --- code of its own, as MODULE:NAME ---
    hooks: str = "callosum.hosts.hook_adapter:HookAdapter"
    """How payloads are read and answers rendered."""
    transcript: str = ""
    """What reads the lines of its transcripts; "" for a host without any."""
    checks: str = "callosum.hosts.inspection:HostInspection"
    """How the host is looked over."""
    site: str = "callosum.hosts.setup:hooks_site"
    """How the gate is put into its settings."""

    @property
    def asks(self) -> str:
        """The event in which it asks whether a tool may run, "" for a host without hooks."""
        return next((event for event, on in self.events.items() if on.role == "asks"), "")

    @property
    def tends(self) -> list[str]:
        """The events at which a session begins or is given something to do."""
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
        """Return the file of a session, or of a sub-agent in it, below ``transcripts``; ``*`` stands for any folder."""
        raise NotImplementedError

    def refused(self, lines: Lines, session: str, call_id: str, since: float) -> bool:
        """Return whether the transcript says that a person refused a call before it ran.

        ``lines`` are those that name the call, newest first, each with its moment (Unix seconds, as ``since``).
        """
        raise NotImplementedError
