"""Put the judgement of a command line together from the judgements of its simple commands."""

from __future__ import annotations

import re
from functools import lru_cache
from operator import attrgetter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final

from callosum.model import Mode
from callosum.rules import keys
from callosum.rules.shell import code, data, files, git, leaks, machine, powershell, programs, table, verbs, web, wrap
from callosum.rules.shell.carried import judge_carried
from callosum.rules.shell.judgement import NOTHING, Known, ShellJudgement, ShellPolicy
from callosum.rules.shell.options import read as read_options
from callosum.rules.shell.parser import MAX_TEXT, Command, parse
from callosum.rules.shell.programs import maps
from callosum.rules.shell.run import Run, shown
from callosum.rules.shell.selfguard import Watch
from callosum.rules.shell.words import assignment, expand

if TYPE_CHECKING:
    from callosum.rules.guard import Guard
    from callosum.rules.shell.run import Handler

MAX_KEPT: Final = 512
"""Lines up to this length are judged once and remembered."""


def judge(
    text: str,
    cwd: str | None,
    start: str | None,
    policy: ShellPolicy,
    known: Known = NOTHING,
    guard: Guard | None = None,
) -> ShellJudgement:
    """Return what a command line does; see ``callosum.rules.shell.judge``. Its reasons may show secrets."""
    return (_kept if len(text) <= MAX_KEPT else _judge)(text, cwd, start, policy, known, guard)


def program_text(text: str, cwd: str | None, policy: ShellPolicy, guard: Guard) -> str:
    """Return what program text would do to the gate itself, ``""`` for nothing."""
    watch = Watch(guard)
    code.judge(Run(cwd, cwd, policy, NOTHING, _text, _dispatch, watch), text)
    return watch.danger


def _judge(
    text: str, cwd: str | None, start: str | None, policy: ShellPolicy, known: Known, guard: Guard | None
) -> ShellJudgement:
    watch = None if guard is None else Watch(guard)
    run = Run(cwd, start, policy, known, _text, _dispatch, watch)
    if len(text) > MAX_TEXT:
        text = text.strip()
        if len(text) > MAX_TEXT:
            run.note(3, f"longer than {MAX_TEXT} characters: only its beginning was read")
            if watch is not None:
                watch.cut(text)  # all of it, as text: what stands behind the cut must not pass unseen
            text = text[:MAX_TEXT]
    _text(run, text)
    if run.readers:  # what any command is given may be read by a shell whose own command gives it nothing
        for command in tuple(run.inputs):
            run.command = command.words
            for reader in tuple(run.readers.values()):
                reader(command)
    if watch is not None:
        watch.finish(run, text)
    return _settled(run)


# Sessions give the same few commands again and again.
_kept = lru_cache(maxsize=2048)(_judge)


def _settled(run: Run) -> ShellJudgement:
    found = run.found
    if len(found) > 1:
        found.sort(key=lambda pair: -pair[0])
    merged, cut = keys.merge([key for _, key in found]) if found else ((), False)
    said = run.said
    if len(said) > 1:
        said.sort(key=lambda one: -one[0])
    least = said[0][0] if said else 0
    lines = [f"{shown(words)}: {what}" for tier, words, what in said[:3] if tier == least or tier >= 2]
    why = tuple(dict.fromkeys(lines)) or ("nothing that runs",)
    if cut:
        why = (*why, "more keys than a call can have: the gravest are kept")
    danger = "" if run.watch is None else run.watch.danger
    effect = "write" if run.writes else "read"
    return ShellJudgement(run.tier, effect, merged, run.repeats, run.stance, why, danger, tuple(run.folders))


def _text(run: Run, text: str) -> None:
    """Judge all commands of a text in order."""
    if data.bare(run, text):
        return
    parsed = parse(text, run.tokens)
    run.tokens = parsed.left
    variables = run.variables
    saved = []
    for step in parsed.steps:
        if step is True:
            saved.append((run.where, run.variables))
            run.variables = dict(run.variables) if run.variables else {}
        elif step is False:
            if saved:
                run.where, run.variables = saved.pop()
        else:
            run.commands -= 1
            if run.commands < 0:
                parsed.cut = True
                break
            _command(run, step)
    run.variables = variables
    if parsed.odd:
        if run.watch is not None:
            run.watch.odd = True
        run.command = text[:72].split()
        code.judge(run, text, database=True)
        run.note(3, f"no command that a shell would take ({parsed.odd})")
    if parsed.cut:
        run.command = text[:72].split()
        run.note(3, "too long or too deep to be read to its end")
        if run.watch is not None:
            run.watch.cut(text)


_SPOKEN: Final = (["echo"], ["printf"])
_TOLD: Final = (*_SPOKEN, ["cat"])
_APPENDING: Final = frozenset((">>", "&>>"))
_WRITING: Final = frozenset((">", ">|", "&>", ">&", "<>"))


def _command(run: Run, command: Command) -> None:
    if command.words and (first := command.words[0])[:1] == "$" and len(run.variables.get(first.strip("${}"), ())) > 1:
        _each(run, first.strip("${}"), command)
        return
    words = expand(command.words, run.variables)
    run.command = words
    if command.texts or command.redirects or command.stdin is not None or command.piped is not None:
        run.reads_input(command)
    watch = run.watch
    if watch is not None and (command.stdin is not None or words[:1] in _SPOKEN):
        watch.document(words, command)
    for sign, target in command.redirects:
        appends = sign in _APPENDING
        for path in expand([target], run.variables)[:1] if appends or sign in _WRITING else ():
            what = "appends to a file" if appends else "writes a file"
            run.makes(path, what, Mode.APPEND if appends else Mode.WRITE)
        if sign in _WRITING:
            leaks.redirected(run, words, target, command)
            if words[:1] in _TOLD:
                text = " ".join(words[1:]).replace("\\n", "\n") if command.stdin is None else command.stdin
                run.writes_text(target, text)
            if not programs.FETCHERS.isdisjoint(words[:4]):
                run.brings(target)
    before = dict(run.variables) if words and "=" in words[0] else run.variables
    at = _assigned(run, words) if words and "=" in words[0] else 0
    if at == len(words):
        run.note(0, "only redirects" if command.redirects or not words else "sets variables")
        return
    argv = words[at:] if at else words
    first = argv[0]
    if command.inside and first == command.inside and (command.piped is not None or command.end in ("|", "&", "|&")):
        run.note(4, "a function that starts itself again and again")
        return
    if first == "for" and argv[2:3] == ["in"]:
        run.variables[argv[1]] = _loop(argv[3:])
    elif first in programs.DECLARES_VARIABLES:
        _assigned(run, [one for one in argv[1:] if "=" in one])
    _dispatch(run, argv, command)
    if at and "PORT" in run.variables and first in programs.SERVERS:
        machine.serves(run, first, argv, run.variables["PORT"][0])
    if at:
        run.variables = before  # what is set before a command is set for it alone


def _each(run: Run, name: str, command: Command) -> None:
    """Judge a command whose program is a variable of several values, once with each."""
    several = run.variables[name]
    for one in several[:16]:
        run.variables[name] = (one,)
        _command(run, command)
    run.variables[name] = several


def _assigned(run: Run, words: list[str]) -> int:
    """Remember the variables that ``words`` begin by setting; return how many words that are."""
    for at, word in enumerate(words):
        given = assignment(word) if "=" in word else None
        if given is None:
            return at
        if at < 64:
            name, value = given
            before = run.variables.get(name, ()) if word[len(name)] == "+" else ()
            run.variables[name] = ((before[0] + value if before else value)[:4096],)
            wrap.sets(run, name, value)
    return len(words)


def _loop(items: list[str]) -> tuple[str, ...]:
    """Return what a loop's variable may hold: the items, or a pattern in the folder it looks in."""
    if any("$(ls" in one for one in items):
        return ("./*",)
    return tuple(items[:16]) if len(items) <= 16 and not any("$(" in one for one in items) else ("./?*",)


_JUDGES: Final = SimpleNamespace(
    data=data, files=files, git=git, machine=machine, powershell=powershell, web=web, wrap=wrap
)
HANDLERS: Final[dict[str, Handler]] = {
    program: attrgetter(name)(_JUDGES) for program, name in programs.HANDLERS.items()
}
_GUARDS: Final = re.compile(
    r"/(?:protection|collaborators|keys|hooks|rulesets|secrets|variables|permissions|memberships|teams|invitations)(?:/|$)"
)
"""What of a hosted repository is about who may do what."""
_VERSION: Final = re.compile(r"(?<=[a-z])\d[\d.]*$")


def _dispatch(run: Run, argv: list[str], command: Command) -> None:
    """Judge one command, through all its prefixes."""
    for _ in range(24):
        if not argv:
            run.note(0, "only looks")
            return
        first = argv[0]
        program = first.rsplit("/", 1)[-1].lower() if "/" in first or not first.islower() else first
        if first[:1] == "$" and program[-1:] in (")", "}"):
            program = first  # the slash stands in a substitution
        if run.variables and (kept := run.variables.get(f"{first}()")) is not None:
            _called(run, kept[0], argv, command)
            return
        if program in programs.SILENT:
            run.note(0, "only looks")
            if program in programs.KEEPS_FOR_LATER:
                _later(run, program, argv)
            if (
                run.brought
                and program in programs.COMPUTES_CHECKSUMS
                and not programs.CHECKSUM_OPTIONS.isdisjoint(argv)
            ):
                run.brought.clear()  # the line knows what it has fetched
            return
        inner = wrap.unwrap(program, argv)
        if inner is None:
            _program(run, program.removesuffix(".exe"), argv, command)
            return
        if program in programs.SETS_VARIABLES:
            for word in argv[1 : len(argv) - len(inner)]:
                if "=" in word and (given := assignment(word)):
                    wrap.sets(run, *given)
        argv = inner
    run.note(4, "prefixes without end")


def _program(run: Run, program: str, argv: list[str], command: Command) -> None:
    if run.watch is not None:
        run.watch.command(run, program, argv, command)
    if "@" in program[1:]:
        program = program[: program.index("@", 1)]  # ``npx rimraf@5``
    handler = HANDLERS.get(program)
    if handler is None and program[-1:].isdigit():
        handler = HANDLERS.get(_VERSION.sub("", program))
    if handler is None and (program[:5] == "mkfs." or program[:5] == "fsck."):
        handler = machine.disk
    if handler is not None:
        handler(run, [program, *argv[1:]], command)
    elif program[:2] == "((":
        run.note(0, "a sum")
    elif _OPEN.search(program):
        _unnamed(run, argv, command)
    elif not (program in programs.RUNS_CONTAINERS and wrap.in_container(run, argv, command)) and not table.apply(
        run, program, argv
    ):
        _other(run, program, argv, command)
    judge_carried(run, program, argv, command, known=handler is not None)
    if program in programs.SERVERS:
        machine.serves(run, program, argv, "")
    if command.end == "&":
        machine.stays(run, program, argv)


def _unnamed(run: Run, argv: list[str], command: Command) -> None:
    """Judge a program whose name the text hides: by its arguments, else graver than any that can be read."""
    first = argv[0]
    if match := _FOUND.fullmatch(first, 0, 256):
        run.inner([match.group(1), *argv[1:]], command)
        return
    name = first.strip("${}")
    if name in maps.PROGRAM_OF_VARIABLE:
        run.inner([maps.PROGRAM_OF_VARIABLE[name], *argv[1:]], command)
        return
    if command.inside and name in programs.GIVEN_VARIABLES:
        run.variables[f"{command.inside}()"] = (first,)
        run.note(1, "runs what it is given")
        return
    if any(one[:1] == "-" and one[1:2] != "-" and {"r", "f"} <= set(one.lower()) and len(one) < 6 for one in argv[1:3]):
        files.remove(run, ["rm", *argv[1:]], command)
    if verbs.asks_for_help(argv):
        run.note(1, "asks a program that it does not name what it is")
    else:
        run.note(*wrap.unread(first))


_OPEN: Final = re.compile(r"[$`*?\[]")
"""What a word has that is no name as it stands: a variable, a substitution, a pattern."""
_FOUND: Final = re.compile(r"\$\((?:which|whence|command -v|type -[pP]|pyenv which|rbenv which|xcrun -f) ([\w.+-]+)\)")
"""Substitutions that put the path of a program in their place."""


def _called(run: Run, kept: str, argv: list[str], command: Command) -> None:
    """Judge a call of an alias, or of a function that runs its arguments, both of the same line."""
    run.variables = {name: value for name, value in run.variables.items() if name != f"{argv[0]}()"}
    name = kept.strip("${}")
    if name in programs.GIVEN_VARIABLES:
        run.inner(argv[int(name) if name.isdecimal() else 1 :], command)
    else:
        run.within(" ".join([kept, *argv[1:]]))


def _later(run: Run, program: str, argv: list[str]) -> None:
    """Follow the text that ``trap`` and ``alias`` keep; for the guard also what ``pgrep`` and its like look for."""
    if run.watch is not None:
        run.watch.silent(run, program, argv)
    if program == "trap" and len(argv) > 2 and argv[1] not in ("-", ""):
        run.within(argv[1])
    elif program == "alias":
        for one in argv[1:17]:
            name, equals, text = one.partition("=")
            if equals:
                run.variables[f"{name}()"] = (text[:4096],)


def _other(run: Run, program: str, argv: list[str], command: Command) -> None:
    """Programs without a row: a file of the project, hosted APIs, or the generic rule."""
    if program in ("gh", "glab") and argv[1:2] == ["api"]:
        _api(run, argv)
    elif program == "ip" or program in ("ifconfig", "route"):
        changes = {"set", "add", "del", "delete", "flush", "down", "up", "replace", "change"} & set(argv[1:])
        run.note(4 if changes else 0, "changes the network of the machine" if changes else "only looks")
        if changes:
            run.keyed(4, "machine", "network")
    elif argv[0][:2] in ("./", "..") or argv[0][:1] in ("/", "~"):
        if program in programs.OUTWARD:
            verbs.generic(run, program, argv, command)
        else:
            run.note(1, "runs a program of this folder or its own path")
        run.starts(argv[0])
    else:
        verbs.generic(run, program, argv, command)


def _api(run: Run, argv: list[str]) -> None:
    found = read_options(argv[2:], programs.GH_API_TAKES)
    method = (
        found.value("-X", "--method")
        or ("POST" if found.has("-f", "-F", "--field", "--raw-field", "--input") else "GET")
    ).upper()
    path = found.args[0].strip("/") if found.args else ""
    match = re.match(r"repos/([\w.-]+/[\w.-]+)(/.*)?$", path)
    if path == "graphql":
        text = " ".join(found.values.get("-f", []) + found.values.get("-F", []) + found.values.get("--field", []))
        web.http(run, "POST" if "mutation" in text else "GET", "graphql", [text])
    else:
        tier = {"GET": 0, "HEAD": 0, "DELETE": 4}.get(method, 2)
        run.note(tier, f"HTTP {method}")
        if tier == 2 and _GUARDS.search(path):
            tier = 4
            run.note(tier, "changes access or configuration")
        elif tier == 2 and path.endswith("/merge"):
            tier = 3
            run.note(tier, "merges")
        mode = Mode.WRITE if tier else Mode.READ
        if match and not match.group(2):
            run.keyed(tier, "repo", match.group(1).lower(), mode)
            if tier == 4:
                run.stance = "-exist"
        elif path:
            where = "https://api.github.com" if argv[0] == "gh" else "https://gitlab.com/api/v4"
            run.keyed(tier, "url", f"{where}/{path}", mode)
