"""The rows of ``commands.txt``: which program with which words and options does what, how gravely, to which keys.

The head of that file explains its columns. Code for a program (``git``, ``files``, ``wrap``) comes before its rows.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Final, NamedTuple

from callosum.model import Mode
from callosum.rules import keys
from callosum.rules.shell import options, programs, verbs
from callosum.rules.shell.programs import groups, maps

if TYPE_CHECKING:
    from callosum.rules.shell.run import Run


class Row(NamedTuple):
    """A row of ``commands.txt``, made ready. ``words`` are the alternatives, each a tuple; None: any."""

    words: tuple[tuple[str, ...], ...] | None
    options: frozenset[str]
    without: frozenset[str]
    tier: int | str
    keys: tuple[tuple[str, Mode], ...]
    what: str


_MODES: Final = {"+": Mode.APPEND, "?": Mode.READ}


def _read_rows() -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    lists: dict[str, str] = {}
    text = resources.files(__package__).joinpath("commands.txt").read_text("utf-8")
    for line in text.replace("\n    ", " ").split("\n"):
        if not line or line[0] == "#":
            continue
        if line[0] == "@" and "|" not in line:
            name, _, members = line.partition(" ")
            lists[name] = members
            continue
        programs, first, flags, tier, named, what = map(str.strip, re.split(r"\s\|(?=\s)", line))
        forms = [tuple(form.split()) if form.strip() != '""' else () for form in first.split(",")]
        given = flags.split()
        row = Row(
            None if ("*",) in forms else tuple(forms),
            frozenset(one for one in given if one[0] != "!"),
            frozenset(one[1:] for one in given if one[0] == "!"),
            int(tier) if tier.isdecimal() else tier,
            tuple((one.lstrip("+?"), _MODES.get(one[0], Mode.WRITE)) for one in named.split()),
            what,
        )
        for program in " ".join(lists.get(one, one) for one in programs.split()).split():
            found.setdefault(program, []).append(row)
    return found


TABLE: Final = _read_rows()
_OPTION: Final = re.compile(r"\{(-[^}]+)\}")
_HOLE_SIGNS: Final = frozenset("{}$|")
_HOLE: Final = re.compile(r"\{([^}]+)\}")


def apply(run: Run, program: str, argv: list[str]) -> bool:
    """Judge a command by the first row that fits; return False if none does."""
    if program not in TABLE:
        return False
    where = run.where
    if program in groups.FOLDER_OPTIONS and (folder := _folder(groups.FOLDER_OPTIONS[program], argv)):
        run.goes(folder)
    found = _judged(run, program, argv)
    run.where = where
    return found


def _folder(names: frozenset[str], argv: list[str]) -> str:
    """Return what one of these options is given."""
    for at, word in enumerate(argv[1:32], 1):
        name, equals, value = word.partition("=")
        if name in names:
            return value if equals else "".join(argv[at + 1 : at + 2])
    return ""


@cache
def by_word(program: str) -> dict[str, list[Row]]:
    """Return the rows of a program by the first word that they can fit; those that fit any other are under ``""``."""
    rows = TABLE[program]
    firsts = [{one[0] if one and one[0][0] != "-" else "*" for one in row.words or ("*",)} for row in rows]
    words = {"", *(word for first in firsts for word in first)}
    return {
        word: [row for row, first in zip(rows, firsts, strict=True) if not first.isdisjoint(("*", word))]
        for word in words
    }


def _judged(run: Run, program: str, argv: list[str]) -> bool:
    if verbs.asks_for_help(argv):
        run.note(0, "only tells of itself")
        return True
    words, found = _split(argv)
    if program in programs.KUBECTL:
        words = _manifests(run, argv, words)
    rows = by_word(program)
    for row in rows.get(words[0], rows[""]) if words else rows[""]:
        size = matches(row, words, argv)
        if size is None:
            continue
        if row.options and row.options.isdisjoint(found.flags):
            continue
        if row.without and not row.without.isdisjoint(found.flags | set(words)):
            continue
        tier = tier_of(run, row)
        if tier and verbs.is_dry(argv):
            run.note(0, "only tells what it would do")
            return True
        run.note(tier, row.what)
        for template, mode in row.keys:
            for name in _OPTION.findall(template):
                if name not in found.values and name in argv[1:-1]:
                    found.values[name] = [argv[argv.index(name, 1) + 1]]
            filled = template
            if "{space}" in template:  # the cluster and the namespace that options name, a slash behind each
                named = (found.value("--context"), found.value("-n", "--namespace"))
                space = "".join(f"{one}/" for one in named if one and _HOLE_SIGNS.isdisjoint(one))
                filled = template.replace("{space}", space)
            for rest in _each(program, words, size):
                _key(run, tier, filled, mode if tier else Mode.READ, (words[:1], rest), found)
        return True
    return False


def _manifests(run: Run, argv: list[str], words: list[str]) -> list[str]:
    """Return the words of kubectl with one name for each thing.

    A manifest (``-f``, ``-k``) gets the name that all worktrees of its repository have for it, each kind behind the
    verb its one name: ``deploy/web`` is ``deployment/web``.
    """
    folder = run.project()
    named = {argv[at + 1] for at, one in enumerate(argv[:-1]) if one in ("-f", "-k", "--filename", "--kustomize")}
    if folder and named:
        words = [
            keys.path(keys.clean(one), folder) if one in named and "://" not in one and "$" not in one else one
            for one in words
            if one != "-"
        ]
    parted = [word.partition("/") for word in words[1:]]
    return words[:1] + [maps.KUBERNETES_KINDS.get(kind.lower(), kind) + slash + rest for kind, slash, rest in parted]


def _each(program: str, words: list[str], size: int) -> list[list[str]]:
    """Return what stands behind a row's words: once for each of the things that kubectl is told of at once.

    ``pod a b`` and ``pod/a svc/b`` are two; ``name=value`` is none.
    """
    rest = words[size:]
    if program not in programs.KUBECTL or len(rest) < 2 or words[0] not in programs.KUBECTL_SEVERAL:
        return [rest]
    named = [one for one in rest if "=" not in one][:_MOST_NAMED]
    if named and "/" in named[0]:
        return [[one] for one in named]
    return [[named[0], one] for one in named[1:]] or [rest]


_MOST_NAMED: Final = 16


def _split(argv: list[str]) -> tuple[list[str], options.Options]:
    """Return the words without options; before the first word options may have values."""
    at, kept = 1, []
    while at < len(argv) and argv[at][:1] == "-":
        size = 2 if argv[at] in programs.TAKES_BEFORE_COMMAND and len(argv) > at + 2 else 1
        kept += argv[at : at + size]
        at += size
    if argv[at : at + 1] == ["compose"]:
        first, at = argv[at], at + 1
        while at < len(argv) and argv[at][:1] == "-":
            at += 2 if argv[at] in programs.TAKES_BEFORE_COMMAND else 1
        argv, at = [first, *argv[at:]], 0
    found = options.read([*kept, *argv[at:]], programs.TAKES_AFTER_COMMAND)
    if any("$(" in one for one in found.args):
        found.flags.add("$()")
    return options.read(argv[at:], programs.TAKES_AFTER_COMMAND).args, found


def tier_of(run: Run, row: Row) -> int:
    """Return the tier of a row, which may be a setting of the policy."""
    return row.tier if isinstance(row.tier, int) else int(getattr(run.policy, row.tier))


def matches(row: Row, words: list[str], argv: list[str]) -> int | None:
    """Return how many words a row's first words take, None where they do not fit."""
    if row.words is None:
        return 0
    given = len(words)
    for form in row.words:
        size = len(form)
        if not size:
            if not words and len(argv) == 1:
                return 0
            continue
        if form[-1] in _FOLLOWS:
            size -= 1
            if (form[-1] == "...") != (given > size):
                continue
        if form[0][0] == "-":
            if tuple(argv[1 : 1 + size]) == form:
                return 0
        elif (given >= size and form[0] in (words[0], "*")) and (
            size == 1 or all(part in ("*", word) for part, word in zip(form[:size], words, strict=False))
        ):
            return size
    return None


_FOLLOWS: Final = frozenset(("...", '""'))


def _key(
    run: Run, tier: int, template: str, mode: Mode, words: tuple[list[str], list[str]], found: options.Options
) -> None:
    """Add the keys a template stands for; ``words`` are the first of all, and those after the row's."""
    first, rest = words
    entity, _, value = template.partition(":")
    if value == "{*}":
        for one in rest[:16]:
            run.keyed(tier, entity, one, mode)
        return
    value, _, facet = value.partition("|")
    missing = False

    def fill(match: re.Match[str]) -> str:
        nonlocal missing
        name = match.group(1)
        here = run.repository()
        if name == "cwd":
            text = "" if run.where.lost else run.where.here or ""
        elif name == "project":
            text = run.project() or ""
        elif name == "worktree":
            text = run.home(here) if here else ""
        elif name == "repo":
            named = keys.repository(found.value("-R", "--repo")).lower()
            text = named or (run.common(run.home(here)) if here else "")
        elif name.isdecimal():
            place = int(name)
            text = "".join(first) if not place else rest[place - 1] if len(rest) >= place else ""
        else:
            text = found.value(name)
        if not text and not (name.isdecimal() and int(name) > 1):
            missing = True
        return text

    value = _HOLE.sub(fill, value)
    if missing or "$" in value:
        return
    if entity == "file":
        run.makes(value, "writes a file")
        return
    name = value.rstrip("/") + ("/" if facet and value[-1:] == "/" else "")
    if mode is Mode.APPEND and entity in ("pr", "issue"):
        run.repeats = True
    if entity == "repo":
        name = name.lower()
    if name:
        run.key(tier, f"{entity}:{run.on_machine(name)}" + (f"|{facet}" if facet else ""), mode)
