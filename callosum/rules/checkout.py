"""Tools that stand for a git command: ``git_commit`` with a ``repo_path`` does what the command does."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from callosum.model import Call
from callosum.rules import acts, keys, shell
from callosum.rules import lexicon as lex
from callosum.rules.arguments import short
from callosum.rules.lexicon import lists, maps
from callosum.rules.name import read_name

if TYPE_CHECKING:
    from callosum.rules.name import Name

_MOST: Final = 32
MAX_FOLDERS: Final = 16
"""Most folders of one call that are looked at for their repository."""
SERVER: Final = "mcp__git__"
"""How tools of a server called git begin."""
_HUMPS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|_")
_SINGULAR: Final = {"branches": "branch", "tags": "tag", "remotes": "remote", "worktrees": "worktree"}
_PLAIN: Final = re.compile(r"[a-z][a-z-]{0,40}")


def stands(tool: str, name: Name) -> bool:
    """Return True if a tool may stand for a git command, by its name."""
    words = name.words
    return (
        words[:1] == ("git",)
        or tool.startswith(SERVER)
        or (words[1:2] == ("git",) and words[0] in lex.GIT_TOOL_RUNNER_WORDS)
    )


def judge(call: Call, params: Mapping[str, Any], name: Name) -> tuple[shell.ShellJudgement, bool] | None:
    """Return what the git command does that a tool stands for, and whether that decides; None for any other tool.

    That it only looks is believed where the arguments say so. It has keys only where they say in which tree it works.
    """
    if not stands(call.tool, name):
        return None
    said = _as_command(params, [word for word in name.words if word != "git"])
    if not said:
        return None
    place = _place(params, call.cwd)
    worktrees = call.worktrees or {}
    worktree = worktrees.get(place, call.worktree)
    found = shell.judge(said, place or call.cwd, worktree=worktree, home=call.home, worktrees=worktrees)
    return found if place else found._replace(keys=()), bool(found.tier) or said.count(" ") > 1


def folders(call: Call) -> tuple[str, ...]:
    """Return the folders other than its own in which a call uses a repository, as its command line or params name them.

    Bounded; each is absolute or begins with ``~``.
    """
    if not any(type(value) is dict or type(value) is list for value in call.params.values()):
        return _folders(call, call.tool, call.params)  # nearly all
    found: dict[str, None] = {}
    for tool, params in acts.calls(call.tool, call.params) or ((call.tool, call.params),):
        found |= dict.fromkeys(_folders(call, tool, params))
    return tuple(found)[:MAX_FOLDERS]


def _folders(call: Call, tool: str, params: Mapping[str, Any]) -> tuple[str, ...]:
    place, name = _place(params, call.cwd), read_name(tool[:256])
    if place and stands(tool, name):
        said = _as_command(params, [word for word in name.words if word != "git"])
        return shell.judge(said, call.cwd, start=place, home=call.home).folders if said else ()
    return shell.folders_of(params, call.cwd, call.home, tool)


def _place(params: Mapping[str, Any], cwd: str | None) -> str:
    """Return the folder in whose repository a git tool is to work, ``""`` where it does not say."""
    where = next(
        (value for tree in lists.GIT_TOOL_FOLDER_PARAMS if type(value := params.get(tree)) is str and value), ""
    )
    return (keys.path(keys.clean(where), cwd).rstrip("/") or "/") if where else ""


def _as_command(params: Mapping[str, Any], words: list[str]) -> str:
    """Return the command line, ``""`` where no git command is named."""
    at = next((place for place, word in enumerate(words) if _SINGULAR.get(word, word) in lex.GIT_COMMANDS), -1)
    if at < 0:
        return _line(params) if lex.GIT_TOOL_RUNNER_WORDS.issuperset(words) else ""
    more = _more(params)
    verb, modifiers = _SINGULAR.get(words[at], words[at]), words[:at] + words[at + 1 :]
    if modifiers[at : at + 1] and f"{verb}-{modifiers[at]}" in lex.GIT_HYPHENATED_COMMANDS:
        verb = f"{verb}-{modifiers.pop(at)}"
    said = ["git", verb]
    for item in [*modifiers, *more]:
        said += _option(verb, item, within=verb in lex.GIT_COMMANDS_WITH_SUBCOMMANDS and len(said) == 2)
    for item, value in params.items():
        if value is True or (
            type(value) is str and value.lower() in ("true", "yes") and item not in lists.GIT_TOOL_OPERAND_PARAMS
        ):
            said += _option(verb, "-".join(_HUMPS.split(item)).lower() if isinstance(item, str) else "", within=False)
    if (
        verb in lex.GIT_REMOTE_COMMANDS
        and "remote" not in params
        and any(param in params for param in lists.GIT_TOOL_OPERAND_PARAMS[1:5])
    ):
        said.append("origin")
    for item in lists.GIT_TOOL_OPERAND_PARAMS:
        found = [text for text in short(params.get(item))[:_MOST] if text[:1] != "-"]
        if found and item in lex.GIT_TOOL_FILE_PARAMS and verb in ("checkout", "restore", "reset", "diff"):
            said.append("--")
        said += found
    return shlex.join(said)


def _line(params: Mapping[str, Any]) -> str:
    """Return the command line that a tool is given which runs any git command; its text may be one for a shell."""
    value = next((params[item] for item in ("command", "cmd", "args", "subcommand") if params.get(item)), "")
    if isinstance(value, (list, tuple)):
        value = shlex.join([item for item in value[:_MOST] if isinstance(item, str)])
    if type(value) is not str or not value.strip():
        return ""
    return value if value.startswith("git ") else f"git {value}"


def _more(params: Mapping[str, Any]) -> list[str]:
    """Return the words of params that hold some of the command: ``mode``, ``args``."""
    found: list[str] = []
    for name in lists.GIT_TOOL_MODE_PARAMS:
        value = params.get(name)
        if type(value) is str and len(value) <= 1024:
            found += value.split()
        elif isinstance(value, (list, tuple)):
            found += [item for item in value[:_MOST] if isinstance(item, str) and len(item) <= 1024]
    return found[1:] if found[:1] == ["git"] else found


def _option(verb: str, word: str, *, within: bool) -> list[str]:
    """Return what a further word of a tool is in the command; ``within``: it may be a command of that command."""
    if word[:1] == "-" or not _PLAIN.fullmatch(word):
        return [word] if word else []
    known = maps.GIT_TOOL_OPTIONS.get(f"{verb} {word.replace('-', '')}")
    if known is not None:
        return [known] if known else []
    if word in lex.GIT_TOOL_FILLER_WORDS:
        return []
    return [word] if within else [f"--{word}"]
