"""Commands that run other commands: prefixes (``sudo``), shells, remote shells, ``xargs``, ``find -exec``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from callosum.model import Mode
from callosum.rules.shell import code, leaks, options, places, programs, table, verbs
from callosum.rules.shell.programs import groups, maps
from callosum.rules.shell.words import assignment

if TYPE_CHECKING:
    from collections.abc import Callable

    from callosum.rules.shell.parser import Command
    from callosum.rules.shell.run import Run
    from callosum.rules.shell.selfguard import Watch


def _read_prefixes() -> dict[str, dict[str, tuple[int, frozenset[str]]]]:
    found: dict[str, dict[str, tuple[int, frozenset[str]]]] = {}
    for prefixes, form in maps.PREFIXES.items():
        skip, *takes = form.split()
        for program, _, sub in (one.partition(":") for one in prefixes.split()):
            found.setdefault(program, {})[sub] = (int(skip), frozenset(takes))
    return found


_BY_PROGRAM: Final = _read_prefixes()
_NAME: Final = re.compile(r"[\w.+-]+")


def runs_as_told(run: Run, text: str) -> None:
    """Judge a command that another program runs because a setting or a variable says so.

    A name alone is that of a pager, an editor or their like.
    """
    if text and not _NAME.fullmatch(text):
        run.within(text.lstrip("|- "))


def sets(run: Run, name: str, value: str) -> None:
    """Judge what the value of a variable makes other programs run."""
    if name in programs.COMMAND_VARIABLES:
        runs_as_told(run, value)
    elif name in ("BASH_ENV", "ENV") and value:
        _starts_text(run, value)
    elif (
        name in programs.LIBRARY_VARIABLES
        and value
        and (run.place(value).kind == places.SHORT_LIVED or run.fetched(value))
    ):
        run.note(4, "puts code that nobody keeps into every program")


def unwrap(program: str, argv: list[str]) -> list[str] | None:
    """Return the command that a prefix runs (empty: none), None where the program is no prefix."""
    forms = _BY_PROGRAM.get(program)
    if forms is None:
        return None
    at = 1
    while "" not in forms and at < len(argv) and argv[at][:1] == "-":
        at += 1
    name = argv[at] if at < len(argv) and argv[at] in forms else ""
    if name not in forms:
        return None
    skip, takes = forms[name]
    return _behind(program, argv, at + 1 if name else at, skip, takes)


def _behind(program: str, argv: list[str], at: int, skip: int, takes: frozenset[str]) -> list[str]:
    """Return what stands behind a prefix's own options, settings and words."""
    while at < len(argv):
        word = argv[at]
        if word == "--":
            at += 1
            break
        if word[:1] == "-" and word != "-":
            if word in groups.PREFIX_QUESTIONS.get(program, ()):
                return []
            if word in ("-S", "--split-string") and program == "env":
                return " ".join(argv[at + 1 : at + 2]).split() + argv[at + 2 :]
            at += 2 if word in takes else 1
        elif program in programs.SETS_VARIABLES and assignment(word):
            at += 1
        elif skip:
            skip -= 1
            at += 1
        else:
            break
    at += skip if at < len(argv) else 0
    return argv[at + 1 :] if argv[at : at + 1] == ["--"] else argv[at:]


_ESCAPED: Final = re.compile(r"\\x[0-9a-fA-F]{2}|\\0?[0-7]{3}")
_FETCHED: Final = re.compile(r"\$\((?:[^)]{0,80}[\s/|])?(?:curl|wget|fetch|aria2c|lynx)\s")


def source(command: Command) -> tuple[str, set[str], bool]:
    """Return what a command reads: its text where that is plain, the programs it comes from, and if all is plain."""
    if command.stdin is not None:
        return command.stdin, set(), True
    texts: list[str] = []
    sources: set[str] = set()
    at, plain = command.piped, command.piped is not None
    for _ in range(16):
        if at is None:
            break
        words = [one for one in at.words if assignment(one) is None]
        first = 0
        while first < len(words) and words[first].rsplit("/", 1)[-1] in programs.PIPE_PREFIXES:
            first += 1
        words = words[first:]
        program = words[0].rsplit("/", 1)[-1] if words else ""
        sources.add(program)
        if at.stdin is not None:
            texts.append(at.stdin)
        elif program in ("echo", "printf"):
            said = [one for one in words[1:] if one not in ("-n", "-e", "-ne", "-en")]
            text = " ".join(said) if program == "echo" else "\n".join(said)
            texts.append(text.replace("\\n", "\n"))
            plain = plain and "$" not in text
        elif program not in ("tee", "cat") or at.piped is None:
            plain = False
        at = at.piped
    return "\n".join(texts), sources, plain


def fetched(text: str) -> bool:
    """Return True if a text holds the output of a program that fetches from the net."""
    return "$(" in text and _FETCHED.search(text, 0, 65_536) is not None


def unread(text: str) -> tuple[int, str]:
    """Return how grave it is to run a text of which only a variable or a substitution is known, and why."""
    if fetched(text + " "):
        return 4, "runs what it fetches from the net, unseen"
    said = [one.split() for one in text[:MAX_UNREAD].strip("$()\"' ").split("|")]
    sources = [one[0].rsplit("/", 1)[-1] for one in said if one]
    if not programs.DECODERS.isdisjoint(sources):
        return 4, "runs what is hidden in another encoding"
    if text[:2] == "$(" and len(said) == 1:  # some output is made to be run by the shell that asks: ``ssh-agent -s``
        source = "".join(sources[:1])
        setup = source not in programs.SAYS_OTHERS_TEXT and not programs.SETUP_WORDS.isdisjoint(said[0][1:4])
        if not source or source in programs.SHELL_AGENTS or setup:
            return 1, "sets up this shell as another program says"
    return 3, "runs what the command does not tell"


MAX_UNREAD: Final = 4096
"""How far a substitution is read for the programs in it, in characters."""


_WHOLE: Final = re.compile(r"\$(?:\w+|\{\w+\}|\(.*\))", re.DOTALL)


def hidden(text: str) -> bool:
    """Return True if program text is no more than a variable or a substitution."""
    text = text.strip()
    return text[:1] == "$" and _WHOLE.fullmatch(text, 0, 65_536) is not None


def runs_source(run: Run, command: Command, *, lines: bool, reads: Callable[[Run, str], None] | None = None) -> None:
    """Judge a shell (``lines``) or an interpreter that runs what it reads; ``reads`` judges a language of its own."""
    text, sources, plain = source(command)
    if sources & programs.FETCHERS or fetched(text):
        run.note(4, "runs what it fetches from the net, unseen")
    elif "history" in sources:
        run.note(4, "runs again what was run before")
    elif sources & programs.DECODERS or _ESCAPED.search(text, 0, 65_536):
        run.note(4, "runs what is hidden in another encoding")
    elif not plain and sources:
        run.note(3, "runs what another command says")
    if text:
        if reads is not None:
            reads(run, text)
        elif lines:
            run.within(text)
        else:
            code.judge(run, text)
    read = [target for sign, target in command.redirects if sign in ("<", "<>") and target not in programs.STDIN_NAMES]
    for target in read:
        run.note(*(unread(target) if target[:2] == "$(" else (1, "runs a script")))
        run.starts(target, reads if reads is not None or lines else code.judge)
    if command.stdin is None and command.piped is None and not read:
        run.note(1, "runs a shell" if lines else "runs an interpreter")

        def reads_too(other: Command) -> None:
            """Judge what another command of the line is given as what this program reads."""
            given = other.stdin is not None or other.piped is not None
            if given or any(sign in ("<", "<>") for sign, _ in other.redirects):
                runs_source(run, other, lines=lines, reads=reads)

        run.readers[lines, reads] = reads_too


def shell(run: Run, argv: list[str], command: Command) -> None:
    """``sh``, ``bash`` and their like: a text after ``-c``, a script, or what they read."""
    if argv[1:2] and argv[1] in ("--version", "--help"):
        run.note(0, "only tells of itself")
        return
    at = 1
    while at < len(argv):
        word = argv[at]
        if word in ("-o", "+o", "-O", "+O", "--rcfile", "--init-file"):
            if word[:2] == "--" and at + 1 < len(argv):
                _starts_text(run, argv[at + 1])
            at += 2
            continue
        if word == "-" or (word[:2] == "--" and word != "--command"):
            at += 1
            continue
        if word in programs.STDIN_NAMES:
            break
        if word[:1] in "-+":
            if "c" in word[1:] or word == "--command":
                rest = argv[at + 1 :]
                while rest and rest[0][:1] == "-" and " " not in rest[0]:
                    rest = rest[1:]
                if rest and fetched(rest[0]):
                    run.note(4, "runs what it fetches from the net, unseen")
                text = _arguments(rest[0], rest[2:]) if rest else ""
                before = run.variables
                run.variables = {**before, **{str(place): (one,) for place, one in enumerate(rest[1:10])}}
                run.within(text)
                run.variables = before
                return
            if "s" in word[1:]:
                runs_source(run, command, lines=True)
                return
            at += 1
            continue
        _starts_text(run, word)
        return
    runs_source(run, command, lines=True)


def _starts_text(run: Run, word: str) -> None:
    """Judge a script that a shell runs: a file, a descriptor or what another command says."""
    run.note(*(unread(word) if word[:2] == "$(" else (1, "runs a script")))
    run.starts(word)


def _arguments(text: str, words: list[str]) -> str:
    """Return the text of ``sh -c`` with its arguments in the place of ``$@``."""
    if "$@" not in text and "$*" not in text:
        return text
    said = " ".join(words)[:4096]
    return text.replace('"$@"', said, 64).replace("$@", said, 64).replace("$*", said, 64)


def evaluate(run: Run, argv: list[str], command: Command) -> None:
    """``eval`` and ``source``."""
    text = " ".join(argv[1:])
    if fetched(text + " "):
        run.note(4, "runs what it fetches from the net, unseen")
    if argv[0] == "eval":
        run.within(text)
    elif not programs.STDIN_NAMES.isdisjoint(argv[1:2]):
        runs_source(run, command, lines=True)
    else:
        run.note(*(unread(argv[1]) if text[:2] == "$(" else (1, "runs a script in this shell")))
        run.starts(argv[1] if len(argv) > 1 else "")


def watch(run: Run, argv: list[str], _command: Command) -> None:
    """``watch`` hands its words to a shell."""
    found = options.read(argv[1:], programs.WRAP_WATCH_TAKES, until=True)
    run.within(" ".join(found.args))


def text_of_option(run: Run, argv: list[str], command: Command) -> None:
    """``su -c``, ``runuser -c``, ``runuser -u user -- command``, ``sg group -c``; ``script -c`` keeps what it shows."""
    records = argv[0] == "script"
    found = options.read(argv[1:], programs.RECORD_TAKES if records else programs.WRAP_SWITCH_USER_TAKES)
    for path in found.args[:1] if records else ():
        run.makes(path, "writes a file")
    if text := found.value("-c", "--command"):
        run.within(text)
    elif argv[0] == "runuser" and found.has("-u") and found.args:
        run.inner(found.args, command)
    else:
        run.note(1, "runs a shell" if records else "becomes another user")


def terminal_window(run: Run, argv: list[str], command: Command) -> None:
    """``xterm -e``, ``gnome-terminal --``: what runs in the new window."""
    at = next((place for place, one in enumerate(argv) if one in ("-e", "-x", "--", "--command")), 0)
    run.note(1, "opens a terminal")
    if at and len(argv) == at + 2:
        run.within(argv[at + 1])
    elif at:
        run.inner(argv[at + 1 :], command)


def remote(run: Run, argv: list[str], command: Command) -> None:
    """``ssh host command``: what runs there is judged as if the other machine's folders were not ours."""
    found = options.read(argv[1:], programs.SSH_TAKES, until=True)
    for one in found.values.get("-o", []):
        option, *told = re.split("[ =]", one, maxsplit=1)
        if told and option.lower() in ("proxycommand", "localcommand", "knownhostscommand"):
            runs_as_told(run, told[0])
    if found.args and not leaks.is_here(found.args[0]) and leaks.fed(run, command, kept=True):
        run.note(4, leaks.SENDS)
    if len(found.args) > 1:
        host = found.args[0].rpartition("@")[2]
        run.elsewhere(f"host:{host.lower()}", " ".join(found.args[1:]))
    elif found.args and (command.stdin is not None or command.piped is not None):
        text, _, plain = source(command)
        if not plain:
            run.note(3, "runs on another machine what another command says")
        run.elsewhere(f"host:{found.args[0].rpartition('@')[2].lower()}", text)
    elif found.args:
        run.note(1, "opens a shell on another machine")
    else:
        run.note(0, "only tells of itself")


def in_container(run: Run, argv: list[str], command: Command) -> bool:
    """``docker exec``, ``docker run``, ``kubectl exec``: judges the command inside; False where there is none."""
    found = options.read(argv[1:], programs.CONTAINER_TAKES)
    words = found.args
    place = next((at for at, one in enumerate(words[:3]) if one in ("exec", "run", "debug", "rsh")), -1)
    if place < 0 or len(words) <= place + 1:
        return False
    at = argv.index(words[place]) + 1
    inner = options.read(argv[at:], programs.CONTAINER_TAKES, until=True)
    if not inner.args:
        return False
    name, *rest = inner.args
    if words[place] == "run" and (
        inner.has("--privileged")
        or any(one.split(":")[0] == "/" for one in inner.values.get("-v", []) + inner.values.get("--volume", []))
    ):
        run.note(4, "gives a container the whole machine")
    while rest and rest[0][:1] == "-" and rest[0] != "--":
        rest = rest[2:] if rest[0] in programs.CONTAINER_TAKES else rest[1:]
    if rest[:1] == ["--"]:
        rest = rest[1:]
    run.note(1, "runs a command in a container")
    if words[place] in ("exec", "rsh"):
        run.keyed(1, "container", name, Mode.APPEND)
    elif words[place] == "run":
        run.keyed(1, "container", inner.value("--name"))
        for one in (inner.values.get("-p", []) + inner.values.get("--publish", []))[:16]:
            port = one.partition("/")[0].split(":")[-2:][0]
            if ":" in one and port.isdecimal():
                run.keyed(1, "port", port)
    if rest:
        where = run.where
        run.where = type(where)(None, False, f"container:{name}")
        run.inner(rest, command)
        run.where = where
    return True


_TMUX_KEY: Final = re.compile(r"(?:[CMS]-.{1,8}|Enter|Escape|Tab|Space|BSpace|Up|Down|Left|Right|Home|End|F\d{1,2})$")


def terminals(run: Run, argv: list[str], command: Command) -> None:
    """``tmux``, ``screen``: what they start, or type into a shell, is judged as if it ran here."""
    if argv[0] == "tmux":
        at = 1
        while at < len(argv) and argv[at][:1] == "-":
            at += 2 if argv[at] in programs.TMUX_GLOBAL else 1
        name = argv[at] if at < len(argv) else ""
        takes = programs.TMUX_TAKES - {"-d", "-h"} if name != "display-popup" else programs.TMUX_TAKES
        found = options.read(argv[at + 1 :], takes, until=name in programs.TMUX_RUNS)
        if name in programs.TMUX_RUNS and found.args:
            run.note(1, "runs a command in another window")
            run.within(" ".join(found.args))
            return
        if name in programs.TMUX_TYPES:
            run.note(1, "types into another window")
            run.within(" ".join(one for one in found.args if not _TMUX_KEY.match(one)))
            return
    elif "stuff" in argv:
        run.note(1, "types into another window")
        run.within(" ".join(argv[argv.index("stuff") + 1 :]).replace("\\n", "\n"))
        return
    else:
        found = options.read(argv[1:], programs.WRAP_TERMINALS_TAKES, until=True)
        if found.args and not found.has("-X", "-r", "-x", "-ls", "-list"):
            run.inner(found.args, command)
            return
    if not table.apply(run, argv[0], argv):
        run.note(1, "works with terminals")


def socket(run: Run, argv: list[str], command: Command) -> None:
    """``socat``, ``nc``: what is said to another program is judged by its verb."""
    leaks.opened(run, argv[0], argv, command)
    text, _, plain = source(command)
    for line in text.split("\n")[:64]:
        words = line.replace(";", " ").split()
        if words:
            verbs.generic(run, "", ["", *words[:16]], command)
    if not text:
        run.note(1, "speaks to another program")
    elif not plain:
        run.note(2, "says to another program what the command does not show")


def xargs(run: Run, argv: list[str], command: Command) -> None:
    """``xargs`` and ``parallel``: what comes through the pipe becomes arguments."""
    found = options.read(argv[1:], programs.XARGS_TAKES, until=True)
    words = found.args
    given: list[str] = []
    for sign in (":::", "::::"):
        if sign in words:
            at = words.index(sign)
            words, given = words[:at], words[at + 1 :]
    operands = given or piped_operands(command)
    hole = found.value("-I", "-J", "--replace") or next((one[2:] for one in found.flags if one[:2] == "-i"), "") or "{}"
    if argv[0] == "parallel" and len(words) == 1 and " " in words[0]:
        for operand in operands[:_MOST_OPERANDS] if hole in words[0] else [" ".join(operands)]:
            run.within(_filled(words[0] if hole in words[0] else f"{words[0]} {hole}", hole, operand))
        return
    if not words:
        if argv[0].endswith("parallel"):
            text, _, plain = source(command)
            run.note(0 if plain else 3, "runs what another command says")
            run.within("\n".join(given) or text)
        return
    searched = _search(command) if run.watch is not None and not given else None
    if run.watch is not None and searched is not None:
        run.watch.paused += 1  # what is found is judged below, not the pattern that stands for it
    if run.watch is not None and command.piped is not None and found.has("-I", "--replace"):
        text, _, plain = source(command)
        for one in text.split("\n")[:16] if plain else ():  # each line is one argument
            with run.apart():
                run.inner([word.replace(hole, one) for word in words], command)
    if any(hole in one for one in words):
        for operand in operands:
            run.inner([_filled(one, hole, operand) for one in words], command)
    else:
        run.inner(words + operands, command)
    if run.watch is not None and searched is not None:
        run.watch.paused -= 1
        _hand_over(
            run, run.watch, searched, words if any(hole in one for one in words) else [*words, hole], hole, command
        )


_MOST_OPERANDS: Final = 16
"""How many operands the text of ``parallel`` is judged with, one after another."""


def _filled(word: str, hole: str, operand: str) -> str:
    """Return a word with an operand in each hole; behind a folder of the command's own with its name alone."""
    if operand == _PIPED and " " in word:  # in a text that is run it is no command of its own
        operand = "$piped"
    return word.replace(f"/{hole}", f"/{operand.rsplit('/', 1)[-1]}").replace(hole, operand)


_PIPED: Final = "$(piped)"
"""Stands for operands of which nothing is known."""


def _search(command: Command) -> list[str] | None:
    """Return the words of the ``find`` whose results come through the pipe, None if there is none."""
    at = command.piped
    for _ in range(16):
        if at is None:
            return None
        words = [one for one in at.words if assignment(one) is None]
        if words and words[0].rsplit("/", 1)[-1] == "find":
            return words
        at = at.piped
    return None


def _hand_over(run: Run, watch: Watch, search: list[str], inner: list[str], hole: str, command: Command) -> None:
    """Judge, for the guard alone, a command with each protected file that a search would hand to it."""
    if not inner or inner[0].rsplit("/", 1)[-1] in programs.CHANGES_NOTHING_FOUND:
        return
    for path in watch.entries(search, starts(search), run):
        if watch.danger:
            return
        with run.apart():
            run.inner([word.replace(hole, path) for word in inner], command)


def piped_operands(command: Command) -> list[str]:
    """Return words that stand for what a pipe hands over: a pattern in the folder it was found in."""
    at, some = command.piped, False
    for _ in range(16):
        if at is None:
            break
        words = [one for one in at.words if assignment(one) is None]
        program = words[0].rsplit("/", 1)[-1] if words else ""
        if program in ("find", "fd", "fdfind"):
            return [_below(one, words, some=some) for one in starts(words)]
        if program in ("ls", "git", "rg", "ag", "tree") or (program == "grep" and at.piped is None):
            some = some or program not in ("ls", "git", "tree")
            folders = [one for one in words[1:] if "/" in one and one[:1] != "-"] if program == "ls" else []
            return [one.rstrip("/") + ("/?*" if some else "/*") for one in folders or ["."]]
        some = some or program in ("grep", "egrep", "awk", "sed", "head", "tail", "fzf", "cut")
        if program in ("echo", "printf") and at.piped is None and not any("$" in one for one in words):
            return [one for word in words[1:] if word[:1] != "-" for one in word.replace("\\n", " ").split()]
        if program in ("lsof", "docker", "podman", "pgrep", "ps", "kubectl", "fuser"):
            return ["$(" + " ".join(words)[:200] + ")"]
        at = at.piped
    return [_PIPED]


def starts(words: list[str]) -> list[str]:
    """Return the folders in which ``find`` looks."""
    if words[0].rsplit("/", 1)[-1] != "find":
        return ["."]
    found = []
    for word in words[1:]:
        if word[:1] in ("-", "(", "!") and word not in ("-H", "-L", "-P"):
            break
        if word[:1] != "-":
            found.append(word)
    return found or ["."]


def _below(start: str, words: list[str], *, some: bool = False) -> str:
    narrow = some or any(one in programs.FIND_NARROWING for one in words) or words[0].rsplit("/", 1)[-1] != "find"
    return start.rstrip("/") + ("/?*" if narrow else "/*")


def find(run: Run, argv: list[str], command: Command) -> None:
    """``find`` only looks, unless it deletes or runs a command for what it finds."""
    operands = [_below(one, argv) for one in starts(argv)]
    watch = run.watch
    if watch is not None:
        watch.paused += 1  # what is found is judged below, not the pattern that stands for it
    if "-delete" in argv:
        for one in operands:
            run.removes(one, deep=True, verb="finds and removes")
    acted = "-delete" in argv
    handed: list[list[str]] = [["rm", "{}"]] if acted else []
    at = 1
    while at < len(argv):
        word = argv[at]
        if word in ("-exec", "-execdir", "-ok", "-okdir"):
            end = at + 1
            while end < len(argv) and argv[end] not in (";", "+", "\\;"):
                end += 1
            inner = argv[at + 1 : end]
            if inner[:1] == ["{}"] and "-name" in argv:  # it runs what it finds
                inner = ["".join(argv[argv.index("-name") + 1 :][:1]), *inner[1:]]
            handed.append(inner)
            for one in operands[:16]:
                run.inner([word.replace("{}", one) for word in inner], command)
            acted = True
            at = end
        elif word in ("-fprint", "-fls", "-fprintf") and at + 1 < len(argv):
            run.makes(argv[at + 1], "writes a file")
            if watch is not None:
                watch.word(run, argv[at + 1], always=True)
            acted = True
        at += 1
    if not acted:
        run.note(0, "only looks")
    if watch is not None:
        watch.paused -= 1
        for inner in handed[:16]:
            _hand_over(run, watch, argv, inner, "{}", command)
