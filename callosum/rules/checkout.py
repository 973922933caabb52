"""Keys of tools that stand for a git command: ``git_commit`` with a ``repo_path`` changes what the command does."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from callosum.model import Call, Key
from callosum.rules import keys, shell
from callosum.rules.arguments import short

if TYPE_CHECKING:
    from callosum.rules.name import Name

_TREES: Final = ("repo_path", "repoPath", "repository_path", "repositoryPath", "working_dir", "workingDir")
_SAID: Final = ("remote", "branch_name", "branch", "target", "revision", "files", "paths")
_MOST: Final = 32


def derive(call: Call, params: Mapping[str, Any], name: Name) -> tuple[Key, ...]:
    """Returns the keys of the command that a git tool stands for, none where it does not say in which tree."""
    if name.words[:1] != ("git",) or len(name.words) < 2:
        return ()
    where = next((one for tree in _TREES if type(one := params.get(tree)) is str and one), "")
    if not where:
        return ()
    place = keys.path(keys.clean(where), call.cwd).rstrip("/") or "/"
    return shell.judge(_as_command(params, name), place, worktree=call.worktree).keys


def _as_command(params: Mapping[str, Any], name: Name) -> str:
    verb = name.words[1]
    branches = verb in ("create", "delete", "list") and "branch" in name.words
    said = ["git", "branch" if branches else verb]
    if branches and verb == "delete":
        said.append("-D")
    for one in _SAID:
        said += [text for text in short(params.get(one))[:_MOST] if text[:1] != "-"]
    return shlex.join(said)
