"""What a command line does: how grave it is, what it touches, and which of its commands says so.

``judge(text, cwd)`` cuts the line into its simple commands (``parser``), follows ``cd``, variables
and commands within commands (``words``, ``wrap``), and judges each: by a handler for programs whose
arguments must be read (``files``, ``git``, ``web``, ``data``, ``machine``), else by a row of the
table (``table``), else by the generic rule (``verbs``). Program text after ``-c`` and ``-e`` is
judged by its calls (``code``). What is a question of policy is in ``ShellPolicy``. Pure, and linear
in the length of the line. The parts are loaded with the first command line.
"""

from __future__ import annotations

from functools import cache, lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from callosum.redact.redactor import SHORT, is_plain, redact_text
from callosum.rules import keys, name
from callosum.rules import lexicon as lex
from callosum.rules.lexicon import lists
from callosum.rules.shell.judgement import NOTHING, Known, ShellJudgement, ShellPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import ModuleType

    from callosum.model import Worktree
    from callosum.rules.guard import Guard

DEFAULT_POLICY: Final = ShellPolicy()


@cache
def _line() -> ModuleType:
    from callosum.rules.shell import line  # noqa: PLC0415 - most processes never see a command line

    return line


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
    judgement: ShellJudgement = _line().judge(text, cwd, start or cwd, policy, _known(worktree, home, worktrees), guard)
    return _without_secrets(judgement, ())


def _known(worktree: Worktree | None, home: str | None, worktrees: Mapping[str, Worktree | None] | None) -> Known:
    if worktree is None and home is None and not worktrees:
        return NOTHING
    return Known(worktree, home, tuple(worktrees.items()) if worktrees else ())


def _without_secrets(judgement: ShellJudgement, texts: Iterable[str]) -> ShellJudgement:
    """Return a judgement without secrets in its reasons, searched with its keys and the call's ``texts`` at once."""
    if is_plain(*texts, *[key.name for key in judgement.keys], *judgement.why):
        return judgement
    return judgement._replace(why=tuple(dict.fromkeys(redact_text("\n".join(judgement.why)).split("\n"))))


@lru_cache(maxsize=4096)
def runs_commands(tool: str) -> bool:
    """Return True if a tool that no rule names runs command lines, by its name."""
    tool = tool[:256]
    said = name.read_name(tool).words
    server = tool.partition("__")[2].rpartition("__")[0].lower()
    shells = ("command" in said and "git" not in said) or server in lex.SHELL_TOOL_WORDS
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
    text = _text(params, tool)
    if not text:
        return None
    cwd, start = _folders(params, cwd)
    texts = [value[:SHORT] for value in params.values() if type(value) is str]
    known = _known(worktree, home, worktrees)
    return _without_secrets(_line().judge(text, cwd, start or cwd, policy, known, guard), texts)


def folders_of(params: Mapping[str, Any], cwd: str | None, home: str | None, tool: str = "") -> tuple[str, ...]:
    """Return the folders other than ``cwd`` in which the command line among a call's params uses a repository."""
    text = _text(params, tool)
    return _repositories(text, *_folders(params, cwd), home) if 0 < len(text) <= _MAX_LINE else ()


_MAX_LINE: Final = 8192
"""Longest command line that is read for the folders it goes to, in characters."""


@lru_cache(maxsize=1024)
def _repositories(text: str, cwd: str | None, start: str | None, home: str | None) -> tuple[str, ...]:
    judgement: ShellJudgement = _line().judge(text, cwd, start or cwd, DEFAULT_POLICY, Known(None, home))
    return judgement.folders


def _folders(params: Mapping[str, Any], cwd: str | None) -> tuple[str | None, str | None]:
    """Return the working folder, and the folder in which the line starts if a param names one."""
    for param in () if _FOLDER_PARAMS.isdisjoint(params) else lists.COMMAND_FOLDER_PARAMS:
        folder = params.get(param)
        if type(folder) is str and folder.strip():
            start = keys.path(keys.clean(folder) or ".", cwd).rstrip("/") or "/"
            return cwd or (start if start.count("/") > 1 else None), start
    return cwd, None


_FOLDER_PARAMS: Final = frozenset(lists.COMMAND_FOLDER_PARAMS)


def danger_of_code(text: str, cwd: str | None, guard: Guard, policy: ShellPolicy = DEFAULT_POLICY) -> str:
    """Return what program text would do to the gate itself, ``""`` for nothing."""
    danger: str = _line().program_text(text, cwd, policy, guard)
    return danger


def _text(params: Mapping[str, Any], tool: str) -> str:
    """Return the command line; the words of a list are quoted, so that each stays one word."""
    text = ""
    for param in lists.COMMAND_PARAMS:
        value = params.get(param)
        if value and isinstance(value, (str, list, tuple)):
            text = value if isinstance(value, str) else _quoted(value)
            break
    more = params.get("args")
    if text and isinstance(more, (list, tuple)):
        text = f"{text} {_quoted(more)}"
    return f"pwsh -c {_quoted([text])}" if text and tool and _speaks_powershell(tool) else text


def _quoted(value: list[Any] | tuple[Any, ...]) -> str:
    words = [word for word in islice(value, 4096) if isinstance(word, str)]
    return " ".join(word if word.isalnum() else "'" + word.replace("'", "'\\''") + "'" for word in words)


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
