"""What a command line does: how grave it is, what it touches, and which of its commands says so.

``judge(text, cwd)`` cuts the line into its simple commands (``parser``), follows ``cd``, variables
and commands within commands (``words``, ``wrap``), and judges each: by a handler for programs whose
arguments must be read (``files``, ``git``, ``web``, ``data``, ``machine``), else by a row of the
table (``table``), else by the generic rule (``verbs``). Program text after ``-c`` and ``-e`` is
judged by its calls (``code``). What is a question of policy is in ``ShellPolicy``. Pure, and linear
in the length of the line. The parts are loaded with the first command line.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from callosum.redact.redactor import SHORT, is_plain, redact_text
from callosum.rules import keys, name
from callosum.rules import lexicon as lex
from callosum.rules.lexicon import lists
from callosum.rules.shell.judgement import ShellJudgement
from callosum.rules.shell.policy import ShellPolicy

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from callosum.model import Worktree
    from callosum.rules.guard import Guard

DEFAULT_POLICY: Final = ShellPolicy()


def judge(
    text: str,
    cwd: str | None = None,
    *,
    start: str | None = None,
    policy: ShellPolicy = DEFAULT_POLICY,
    worktree: Worktree | None = None,
    guard: Guard | None = None,
    home: str | None = None,
    worktrees: Mapping[str, Worktree | None] | None = None,
) -> ShellJudgement:
    """Return what a command line does. Never raises; what cannot be read is judged the graver way.

    ``cwd`` is the working folder, ``start`` the folder the line starts in if that is another one.
    ``worktree`` is what ``cwd`` lies in; without it ``cwd`` counts as the root of a repository of its own.
    ``worktrees`` tells the same of other folders, None of one outside of any. ``home`` is that of who runs the line.
    ``guard`` says in ``ShellJudgement.danger`` what the line would do to the gate itself.
    """
    return _without_secrets(_judged(text, cwd, start, policy, worktree, guard, home, worktrees), ())


def _judged(
    text: str,
    cwd: str | None,
    start: str | None,
    policy: ShellPolicy,
    worktree: Worktree | None,
    guard: Guard | None,
    home: str | None,
    worktrees: Mapping[str, Worktree | None] | None,
) -> ShellJudgement:
    from callosum.rules.shell import line  # noqa: PLC0415 - most processes never see a command line
    from callosum.rules.shell.run import Known  # noqa: PLC0415

    known = line.NOTHING
    if worktree is not None or home is not None or worktrees:
        known = Known(worktree, home, tuple(worktrees.items()) if worktrees else ())
    return line.judge(text, cwd, start or cwd, policy, known, guard)


def _without_secrets(found: ShellJudgement, texts: Collection[str]) -> ShellJudgement:
    """Return a judgement without secrets in its reasons, searched with its keys and the call's ``texts`` at once."""
    if is_plain(*texts, *[key.name for key in found.keys], *found.why):
        return found
    why = redact_text("\n".join(found.why)).split("\n")
    return found._replace(why=tuple(dict.fromkeys(why)))


def runs_commands(tool: str) -> bool:
    """Tells whether a tool that no rule names runs command lines, by its name."""
    return _runs_commands(tool if len(tool) <= 256 else tool[:256])


@lru_cache(maxsize=4096)
def _runs_commands(tool: str) -> bool:
    said = name.read_name(tool).words
    shells = ("command" in said and "git" not in said) or tool.partition("__")[2].rpartition("__")[
        0
    ].lower() in lex.SHELL_TOOL_WORDS
    return not lex.SHELL_TOOL_WORDS.isdisjoint(said) or (shells and not lex.SHELL_RUNS.isdisjoint(said))


@lru_cache(maxsize=256)
def _speaks_powershell(tool: str) -> bool:
    low = tool[:256].lower()
    return "powershell" in low or "pwsh" in low


def of_call(
    params: Mapping[str, Any],
    cwd: str | None,
    policy: ShellPolicy = DEFAULT_POLICY,
    worktree: Worktree | None = None,
    guard: Guard | None = None,
    tool: str = "",
    home: str | None = None,
    worktrees: Mapping[str, Worktree | None] | None = None,
) -> ShellJudgement | None:
    """Return what the command line among a call's params does, None where there is none.

    ``tool`` says by its name whether the line is PowerShell.
    """
    text = _line(params)
    if not text:
        return None
    if tool and _speaks_powershell(tool):
        text = f"pwsh -c {_quoted([text])}"
    cwd, start = _start(params, cwd)
    found = _judged(text, cwd, start, policy, worktree, guard, home, worktrees)
    return _without_secrets(found, [one[:SHORT] for one in params.values() if type(one) is str])


def folders_of(params: Mapping[str, Any], cwd: str | None, home: str | None, tool: str = "") -> tuple[str, ...]:
    """Return the folders other than ``cwd`` in which the command line among a call's params uses a repository."""
    text = _line(params)
    if tool and text and _speaks_powershell(tool):
        text = f"pwsh -c {_quoted([text])}"
    return _folders(text, *_start(params, cwd), home) if 0 < len(text) <= _MAX_LINE else ()


_MAX_LINE: Final = 8192
"""Longest command line that is read for the folders it goes to, in characters."""


@lru_cache(maxsize=1024)
def _folders(text: str, cwd: str | None, start: str | None, home: str | None) -> tuple[str, ...]:
    return _judged(text, cwd, start, DEFAULT_POLICY, None, None, home, None).folders


def _start(params: Mapping[str, Any], cwd: str | None) -> tuple[str | None, str | None]:
    """Return the working folder, and the folder in which the line starts if a param names one."""
    start = next(
        (one for folder in lists.COMMAND_FOLDER_PARAMS if type(one := params.get(folder)) is str and one.strip()), None
    )
    if start is not None:
        start = keys.path(keys.clean(start) or ".", cwd).rstrip("/") or "/"
        cwd = cwd or (start if start.count("/") > 1 else None)
    return cwd, start


def danger_of_code(text: str, cwd: str | None, guard: Guard, policy: ShellPolicy = DEFAULT_POLICY) -> str:
    """Return what program text would do to the gate itself, ``""`` for nothing."""
    from callosum.rules.shell import line  # noqa: PLC0415 - as above

    return line.program_text(text, cwd, policy, guard)


def _line(params: Mapping[str, Any]) -> str:
    """Return the command line; the words of a list are quoted, so that each stays one word."""
    text = ""
    for param in lists.COMMAND_PARAMS:
        value = params.get(param)
        if isinstance(value, str) and value:
            text = value
            break
        if isinstance(value, (list, tuple)) and value:
            text = _quoted(value)
            break
    more = params.get("args")
    if text and isinstance(more, (list, tuple)):
        text = f"{text} {_quoted(more)}"
    return text


def _quoted(value: list[Any] | tuple[Any, ...]) -> str:
    said = [one for one in islice(value, 4096) if isinstance(one, str)]
    return " ".join(one if one.isalnum() else "'" + one.replace("'", "'\\''") + "'" for one in said)


__all__ = [
    "DEFAULT_POLICY",
    "ShellJudgement",
    "ShellPolicy",
    "danger_of_code",
    "folders_of",
    "judge",
    "of_call",
    "runs_commands",
]
