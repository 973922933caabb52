"""Merge three texts with ``git merge-file``, and check that the result parses.

Neither program runs in a repository or reads anyone's settings: the folder is a fresh one of ours, git is kept from
searching its parents, and Python is started isolated. git is one that only root can change, or the recorded one
(``git_of``), never one found in ``PATH``, and its result is checked: a merge that does not hold each side's change
once is thrown away.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, Literal, NamedTuple

from callosum.merging.git import git_of
from callosum.merging.hunks import split
from callosum.merging.merge_check import fault_of

PARSING: Final = 0.2
"""Seconds that parsing a merge may take."""
_MERGING: Final = 2.0
"""Seconds that git may take."""
_MARKER: Final = re.compile(r"(?:<{7} mine|\|{7} base|={7}|>{7} theirs)\r?\n?\Z")
_KINDS: Final = {".py": "py", ".pyi": "py", ".json": "json", ".toml": "toml", ".yaml": "yaml", ".yml": "yaml"}
_PARSER: Final = """
import sys
kind, text = sys.argv[1], sys.stdin.buffer.read().decode()
try:
    if kind == "py":
        compile(text, "merge", "exec", 0x400, dont_inherit=True)
    elif kind == "json":
        import json
        json.loads(text)
    elif kind == "toml":
        import tomllib
        tomllib.loads(text)
    else:
        try:
            from yaml import SafeLoader, compose_all
        except ImportError:
            sys.exit(0)
        list(compose_all(text, SafeLoader))
except Exception:
    sys.exit(1)
"""
"""The program that parses. 0x400 is ``ast.PyCF_ONLY_AST``: nothing is compiled, let alone run."""


class MergeResult(NamedTuple):
    """The result of a merge: ``text`` has conflict markers if ``conflicts`` is not 0."""

    text: str
    conflicts: int


def merge(mine: str, base: str, theirs: str, *, scratch: Path, state: str | Path = "") -> MergeResult | None:
    """Merge the changes of ``mine`` and ``theirs`` to ``base``; return None if git fails, or its result is wrong.

    ``scratch`` is a private folder in which the files lie while git reads them. ``state`` is the state folder in which
    ``callosum install`` may have recorded a git.
    """
    git = git_of(state)
    if not git:
        return None
    try:
        scratch.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(dir=scratch, prefix="merge-") as folder:
            for name, text in (("mine", mine), ("base", base), ("theirs", theirs)):
                with open(f"{folder}/{name}", "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                    file.write(text.encode())
            done = subprocess.run(  # noqa: S603 - a program of the system
                [git, "merge-file", "-p", "-q", "--diff3", "mine", "base", "theirs"],
                cwd=folder,
                env=_environment(folder),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_MERGING,
                check=False,
            )
        if not 0 <= done.returncode < 128:  # more is an error; up to 127 is the number of conflicts
            return None
        result = MergeResult(done.stdout.decode(), done.returncode)
        return None if _is_wrong(result, *map(split, (base, mine, theirs, result.text))) else result
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def _is_wrong(result: MergeResult, base: list[str], mine: list[str], theirs: list[str], merged: list[str]) -> bool:
    """Return True unless a merge holds each side's change once; one with conflicts may hold lines of the texts only."""
    if not result.conflicts:
        return bool(fault_of(base, mine, theirs, merged))
    texts = {line.rstrip("\n") for line in (*base, *mine, *theirs)}
    strange = [line for line in merged if line.rstrip("\n") not in texts]
    return not strange or not all(map(_MARKER.match, strange))


def _environment(folder: str) -> dict[str, str]:
    return {
        "PATH": os.defpath,
        "HOME": folder,
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_CEILING_DIRECTORIES": os.path.dirname(folder),  # noqa: PTH120
        "GIT_TERMINAL_PROMPT": "0",
    }


def parses(path: str, text: str, seconds: float = PARSING) -> Literal["yes", "no", "late"]:
    """Return ``yes`` if the text is valid for a file of this name, else ``no``; ``late`` if parsing takes too long.

    A file in a language that is not known is valid.
    """
    kind = _KINDS.get(os.path.splitext(path)[1].lower())  # noqa: PTH122
    if kind is None:
        return "yes"
    isolated = ["-I", *(() if kind == "yaml" else ("-S",))]
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter
            [sys.executable, *isolated, "-c", _PARSER, kind],
            cwd="/",
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
            input=text.encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "late"
    except (OSError, ValueError):
        return "late"
    return "yes" if done.returncode == 0 else "no"
