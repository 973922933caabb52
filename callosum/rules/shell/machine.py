"""The machine itself: processes, ports, servers, interpreters, scheduled jobs, disks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from callosum.model import Mode
from callosum.rules.shell import code, options, places, programs, wrap
from callosum.rules.shell.programs import lists

if TYPE_CHECKING:
    from callosum.rules.shell.parser import Command
    from callosum.rules.shell.run import Run


_PORT: Final = re.compile(r"(?::|\btcp:|\budp:|-i\s?:?|sport = :)(\d{2,5})\b")
_WORD: Final = re.compile(r"[\w.@/-]{2,64}")


def kill(run: Run, argv: list[str], _command: Command) -> None:
    """``kill``: by number; what a substitution finds on a port is a key."""
    text = " ".join(argv[1:])
    if argv[1:2] == ["-l"]:
        run.note(0, "only looks")
        return
    ports = _PORT.findall(text) if "$(" in text else []
    if any(one in ("-1", "0") for one in argv[2:]):
        run.note(4, "ends every process")
    found = options.read(argv[1:], programs.MACHINE_KILL_TAKES)
    if (
        "1" in found.args
        and programs.NOTIFYING_SIGNALS.isdisjoint(found.flags)
        and found.value("-s", "-n", "--signal") not in programs.NOTIFYING_SIGNALS
    ):
        run.note(4, "ends the process that all others come from")
    run.note(2 if ports or "$(" in text else 1, "ends a process")
    for one in ports[:8]:
        run.keyed(2, "port", one)
    _named(run, " ".join(re.findall(r"(?:pgrep|pidof)\s+(?:-\w+\s+)*([^)|]{1,128})", text)))


def kill_by_name(run: Run, argv: list[str], _command: Command) -> None:
    """``pkill``, ``killall``: whoever runs something of that name is hit."""
    found = options.read(argv[1:], programs.KILL_TAKES)
    if "-0" in argv[1:] or found.value("-s", "--signal") == "0":
        run.note(0, "only looks")
        return
    run.note(2, "ends processes by name, whoever started them")
    if found.value(*lists.KILL_USER_OPTIONS) in ("root", "0"):
        run.note(4, "ends processes of the machine's own")
    elif not found.args and found.has(*lists.KILL_USER_OPTIONS):
        run.note(4, "ends all that a user runs")
    elif any(
        one.rsplit("/", 1)[-1].strip("^$").lower() in programs.CARRIES_THE_MACHINE or not one.strip("^$.*")
        for one in found.args
    ):
        run.note(4, "ends what all others run on")
    _named(run, " ".join(found.args))


def _named(run: Run, text: str) -> None:
    for one in list(dict.fromkeys(_WORD.findall(text)))[:8]:
        run.keyed(2, "process", one.rsplit("/", 1)[-1].lower())


def free_port(run: Run, argv: list[str], _command: Command) -> None:
    """``fuser -k 3000/tcp``, ``kill-port 3000``."""
    program = argv[0].rsplit("/", 1)[-1]
    found = options.read(argv[1:], programs.MACHINE_FREE_PORT_TAKES)
    if program == "fuser" and not found.has("-k", "--kill"):
        run.note(0, "only looks")
        return
    run.note(2, "ends whatever listens on a port")
    for one in found.args:
        number = one.partition("/")[0].lstrip(":")
        if number.isdecimal():
            run.keyed(2, "port", number)
        else:
            run.file(2, run.place(one), Mode.WRITE)


def serves(run: Run, program: str, argv: list[str], environment: str) -> None:
    """Name the port a server takes, and the process others could end by name."""
    port = environment
    for at, word in enumerate(argv[1:33], 1):
        name, equals, value = word.partition("=")
        if name in lists.PORT_OPTIONS:
            value = value if equals else (argv[at + 1] if at + 1 < len(argv) else "")
            if value.rpartition(":")[2].isdecimal():
                port = value.rpartition(":")[2]
    if "http.server" in argv:
        port = next((one for one in argv[argv.index("http.server") + 1 :] if one.isdecimal()), "8000")
    elif "runserver" in argv:
        last = argv[-1].rpartition(":")[2]
        port = last if last.isdecimal() else port or "8000"
    if (
        port
        or not programs.SERVING_WORDS.isdisjoint(argv[1:4])
        or (program in ("uvicorn", "gunicorn", "http-server", "vite", "nodemon") and "build" not in argv[1:3])
    ):
        if port.isdecimal() and 0 < int(port[:6]) < 65_536:
            run.keyed(1, "port", port)
        stays(run, program, argv)


def stays(run: Run, program: str, argv: list[str]) -> None:
    """Judge a command that continues to run: others may end it by its name, or by a word of it."""
    run.note(1, "leaves something running")
    named = [program, *(one.rsplit("/", 1)[-1].lower() for one in argv[1:4] if one[:1] != "-")]
    if program in ("npm", "npx", "yarn", "pnpm", "vite", "next", "nodemon", "tsx"):
        named.append("node")
    for one in dict.fromkeys(named):
        if _WORD.fullmatch(one) and one not in ("run", "exec", "start") and not one.isdecimal():
            run.keyed(1, "process", one, Mode.APPEND)


_BACKQUOTED: Final = re.compile(r"`([^`\n]{1,1024})`|\b(?:qx|%x)[({\[]([^)}\]\n]{1,1024})[)}\]]")
"""What these languages hand to a shell."""


def interpreter(run: Run, argv: list[str], command: Command) -> None:
    """``python``, ``node``, ``perl`` and so on: a text after ``-c`` or ``-e``, a module, a script, what it reads."""
    program = re.sub(r"[\d.]+$", "", argv[0].rsplit("/", 1)[-1])
    if argv[1:2] and argv[1] in ("--version", "-V", "--help", "-v", "-h"):
        run.note(0, "only tells of itself")
        return
    at = 1
    while at < len(argv):
        word = argv[at]
        if word == "-m" and program in ("python", "pypy", "py") and at + 1 < len(argv):
            _module(run, argv[at + 1 :], command)
            return
        if (
            word in ("-W", "-X", "-I", "--require", "--import", "--loader")
            and at + 1 < len(argv)
            and (program in ("python", "node") or word == "-I")
        ):
            at += 2
            continue
        if program in ("perl", "ruby") and word[:2] in lists.LIBRARY_OPTIONS:
            at += 2 if len(word) == 2 else 1
            continue
        if word[:1] == "-" and word != "-":
            text = _code_behind(run, program, argv, at)
            if text is not None:
                _code(run, program, text)
                return
            at += 1
            continue
        if word == "-" or word in programs.STDIN_NAMES:
            break
        if word == "eval" and program in ("deno", "bun") and at + 1 < len(argv):
            code.judge(run, argv[at + 1])
            return
        _script(run, program, argv[at:], command)
        return
    wrap.runs_source(run, command, lines=False)


def _code_behind(run: Run, program: str, argv: list[str], at: int) -> str | None:
    """Return the program text that an option gives, None where it gives none."""
    word = argv[at]
    if word.startswith(("--eval=", "--print=")):
        return word.partition("=")[2]
    inline = program in ("perl", "ruby") and "e" in word[1:] and word[:2] != "--"
    coded = (word in programs.CODE_OPTIONS and program != "php") or inline or word in ("-r", "--eval")
    if not coded or at + 1 >= len(argv):
        return None
    short = [one for one in argv[1 : at + 1] if one[:2] not in ("--", *lists.LIBRARY_OPTIONS)]
    if program in ("perl", "ruby") and any("i" in one for one in short):
        for one in argv[at + 2 :]:
            run.makes(one, "edits a file in place")
    return argv[at + 1]


def _code(run: Run, program: str, text: str) -> None:
    if wrap.hidden(text):
        run.note(*wrap.unread(text.strip()))
    elif wrap.fetched(text):
        run.note(4, "runs what it fetches from the net, unseen")
    code.judge(run, text)
    if program in programs.BACKQUOTE_RUNS:
        for match in _BACKQUOTED.finditer(text, 0, code.MAX_CODE):
            run.within(match.group(1) or match.group(2))


def _module(run: Run, words: list[str], command: Command) -> None:
    name = words[0]
    if name in programs.RUN_AS_MODULES:
        run.inner(words, command)
    else:
        looks = name in ("json.tool", "site", "this", "platform", "py_compile_")
        run.note(0 if looks else 1, f"runs the module {name}")


def _script(run: Run, program: str, words: list[str], command: Command) -> None:
    name = words[0].rsplit("/", 1)[-1]
    if name in programs.DJANGO or name in programs.FRAMEWORK_SCRIPTS or program == "java" or name.endswith(".jar"):
        run.inner([name, *words[1:]], command)
    else:
        run.note(1, "runs a script")
        run.starts(words[0], code.judge)


def java(run: Run, argv: list[str], command: Command) -> None:
    """``java -jar x.jar words``: judged by the words after the archive."""
    if "-jar" in argv and argv.index("-jar") + 1 < len(argv):
        run.inner(["jar:" + argv[argv.index("-jar") + 1].rsplit("/", 1)[-1], *argv[argv.index("-jar") + 2 :]], command)
    else:
        run.note(0 if argv[1:2] in (["-version"], ["--version"]) else 1, "runs a program")


def jobs(run: Run, argv: list[str], command: Command) -> None:
    """``crontab``: installing a table replaces all jobs of the user."""
    found = options.read(argv[1:], programs.MACHINE_JOBS_TAKES)
    user = found.value("-u") or "me"
    if found.has("-l"):
        run.note(0, "only looks")
        run.keyed(0, "crontab", user, Mode.READ)
    else:
        text, _, plain = wrap.source(command)
        empty = plain and not text.strip() and found.args in ([], ["-"])
        nothing = "/dev/null" in found.args or ("<", "/dev/null") in command.redirects
        gone = found.has("-r") or empty or nothing
        run.note(4 if gone else 3, "removes all scheduled jobs" if gone else "replaces all scheduled jobs")
        run.keyed(4, "crontab", user)


def later(run: Run, argv: list[str], command: Command) -> None:
    """``at``, ``batch``: what they are fed will run."""
    found = options.read(argv[1:], programs.MACHINE_LATER_TAKES)
    if found.has("-l", "-c"):
        run.note(0, "only looks")
    elif found.has("-d", "-r"):
        run.note(3, "takes back what was to run later")
    else:
        run.note(2, "runs something later")
        if found.value("-f"):
            run.starts(found.value("-f"))
        else:
            wrap.runs_source(run, command, lines=True)


def disk(run: Run, argv: list[str], _command: Command) -> None:
    """Programs that rewrite disks: grave on a device, whatever their options say.

    The letters that make one of them harmless mean something else to the next.
    """
    devices = [one for one in argv[1:] if one[:5] == "/dev/" and run.place(one).kind == places.DEVICE]
    if not devices and programs.DISK_LOOKS.issuperset(argv[1:]):
        run.note(0, "only looks")
        return
    run.note(4, "works on a disk itself")
    for one in devices:
        run.keyed(4, "device", run.place(one).path)
    if argv[0] in ("lvremove", "vgremove"):
        for one in options.read(argv[1:]).args[:16]:
            if one not in devices:
                run.keyed(4, "disk", one)


def mount(run: Run, argv: list[str], _command: Command) -> None:
    """``mount``, ``umount``: what the folders of the machine hold changes."""
    if len(argv) == 1 or argv[1:] == ["-l"]:
        run.note(0, "only looks")
        return
    run.note(4, "changes what the folders of the machine hold")
    for one in argv[1:]:
        if run.place(one).kind == places.DEVICE:
            run.keyed(4, "device", run.place(one).path)
