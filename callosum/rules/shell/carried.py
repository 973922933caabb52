"""What a command carries in its arguments, or tells by its script's name: only what is grave counts."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

from callosum.rules import lexicon as lex
from callosum.rules.name import singular
from callosum.rules.shell import data, programs, table, verbs

if TYPE_CHECKING:
    from collections.abc import Callable

    from callosum.rules.shell.parser import Command
    from callosum.rules.shell.run import Run


def judge_carried(run: Run, program: str, argv: list[str], command: Command, *, known: bool) -> None:
    """Judge what a command carries; ``known``: its program has a function of its own, which reads its arguments."""
    if not known:
        _carried(run, argv, command)
    _named(run, program, argv)


def _carried(run: Run, argv: list[str], command: Command) -> None:
    """Judge what an argument carries: a command line, a program with its operands, SQL. Only what is grave counts.

    ``watchexec 'rm -rf /srv'``, ``lxc exec web -- rm -rf /srv``, ``turso db shell prod 'DROP TABLE users'``. What
    follows an option for texts is none (``--title``).
    """
    if run.tier == 4 or run.depth > 4 or not programs.TEXT_PROGRAMS.isdisjoint(argv[:4]):
        return
    programs_seen = 0
    for at, word in enumerate(argv[1:64], 1):
        option, equals, value = word.partition("=")
        if not programs.TEXT_OPTIONS.isdisjoint((argv[at - 1].partition("=")[0], option)):
            continue
        text = value if word[:1] == "-" and equals else word
        ways: list[Callable[[], object]] = []
        if " " in text or "(" in text:
            if _MODELS.search(text, 0, 8192):
                run.note(4, "its code deletes what a database holds")
                return
            runs = argv[at - 1] in programs.LINE_OPTIONS or option in programs.LINE_OPTIONS
            inside = [line for line in (text, *_QUOTED.findall(text, 0, 8192)) if runs or _begins_with_a_program(line)]
            ways = [partial(run.within, " ; ".join(inside)), partial(data.statement, run, text)]
        elif argv[at - 1] == "--" and "--" not in argv[: at - 1]:
            if not _begins_with_a_program(word) and all(more[:1] == "-" for more in argv[at + 1 :]):
                continue  # a word alone is a name: ``cargo test -- drop_table``
            ways = [partial(run.inner, argv[at:], command)]
        elif word in programs.CARRIED_PROGRAMS and programs_seen < _PROGRAMS:
            programs_seen += 1
            ways = [partial(run.inner, argv[at:], command)]
        for way in ways:
            with run.apart():
                run.tier, where, watch, run.watch = 0, run.where, run.watch, None
                way()
                grave, run.where, run.watch = run.tier == 4, where, watch
            if grave:
                way()
                return


def _begins_with_a_program(text: str) -> bool:
    """Return True if the first word of a text is a program that is known: what people write to each other is none."""
    word = text.lstrip(" \t({").partition(" ")[0]
    program = word.rsplit("/", 1)[-1].lower()
    return (
        program in programs.HANDLERS
        or program in programs.SILENT
        or program in programs.CARRIED_PROGRAMS
        or "=" in program
        or program in table.TABLE
    )


_PROGRAMS: Final = 8
"""Number of programs among the arguments of one command that are judged: each is read to the command's end."""
_SCRIPT: Final = re.compile(r"[\w./~-]{1,256}\.\w{1,5}")
_QUOTED: Final = re.compile(r"\"([^\"]{2,512})\"")
_MODELS: Final = re.compile(
    r"\b(?:delete_all|destroy_all|delete_many|deleteMany|drop_all|dropDatabase|flush(?:all|db))\b"
    r"|::truncate\(|\.all\(\)\.delete\(|\bdetach\s+delete\b",
    re.IGNORECASE,
)


def _named(run: Run, program: str, argv: list[str]) -> None:
    """Judge a script or a task of the project by its name: ``./wipe_db.sh``, ``npm run db:reset``."""
    if "/" in argv[0] and argv[0][:1] in "./~":
        name = program
    else:
        runner = program in programs.TASK_RUNNERS
        if not runner and program not in programs.INTERPRETERS and program not in programs.SHELLS:
            return
        name = next((arg for arg in argv[1:6] if arg[:1] != "-" and arg not in ("run", "exec", "run-script")), "")
        if not runner and not _SCRIPT.fullmatch(name):
            return
    parts = {singular(word) for word in verbs.tokens(name.rsplit("/", 1)[-1].rpartition(".")[0] or name)}
    if not parts.isdisjoint(programs.MADE_NOUNS):
        return
    lasting = not parts.isdisjoint(lex.HEAVY | lex.LASTING | lex.MACHINES | programs.LASTING_PLACES)
    if not parts.isdisjoint(lex.DESTROYS) or (lasting and not parts.isdisjoint(lex.REMOVES | programs.CLEANS)):
        run.note(3, "its name says that it destroys something")
