"""Detect command lines that start a program which then waits for commands to be typed into it.

``bash`` waits; ``bash run.sh``, ``bash -c "make"`` and ``echo make | bash`` do not. A line that cannot be parsed and a
program that is not listed count as not waiting. Pure.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from callosum.rules.shell import parser, wrap
from callosum.rules.shell.words import assignment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from callosum.rules.shell.parser import Command

_DEPTH: Final = 4
"""Maximum depth of command lines within command lines."""


class _Program(NamedTuple):
    """Describe how a program is called so that it does not wait.

    ``gives`` are options that supply its commands, or after which it answers and exits. ``values`` are options that
    take the next word. With more than ``words`` words beside its options, the program has its commands.
    """

    gives: frozenset[str]
    values: frozenset[str]
    words: int


# programs | number of words with which they still wait | options that supply commands | options that take a value
_TABLE: Final = """
sh bash dash zsh ksh ash rbash fish csh tcsh pwsh xonsh nu | 0 | -c -n -command -file | -o -O +o +O --rcfile --init-file
python python2 python3 pypy pypy3 ipython bpython ptpython | 0 | -c -m -h -V | -W -X --profile
node nodejs | 0 | -e -p -c -h -v --eval --print --check --test --run --watch | -r --require --import --loader
ruby irb pry | 0 | -e -c -v -h -S | -r -I -C
perl | 0 | -e -E -v -V -c -h | -I
php | 0 | -r -f -v -h -i -m -S -l -B -R -F --ini --rf --ri --re | -d -c -t
lua luajit tclsh guile | 0 | -e -v -h -c | -l -L
R julia octave jshell ghci iex erl scala sbcl clisp | 0 | -e -f -E -q --file --eval --print --script --non-interactive \
 -v -s -noshell -eval -h | -p
psql | 2 | -c -f -l -V --command --file --list | -h -p -U -d -v -P -F -R -o -L --host --port --username --dbname --set
mysql mariadb | 1 | -e -V --execute | -h -P -u -D -S --host --port --user --database
sqlite3 duckdb | 1 | -c -s -version -help | -cmd -separator -init -nullvalue -newline
redis-cli valkey-cli | 0 | -v --version --eval --scan --stat --latency --bigkeys --memkeys --hotkeys --rdb --pipe \
 --cluster --raw-help | -h -p -n -a -u -s -r -i --user --pass
mongosh mongo | 1 | -f --eval --file --version --nodb-help | --host --port -u -p --authenticationDatabase
gdb lldb | 9 | -batch --batch -b -h -v -p-help | -x -ex
telnet ftp sftp lftp mosh | 9 | -b -c -e -f -s -V -h | -P -o -i -l
nc ncat netcat | 9 | -z -l -h | -w -p -s
vi vim nvim emacs nano pico ed ex | 9 | -e -es -Es -s -batch --batch --headless --version | -c
"""
_PROGRAMS: Final[dict[str, _Program]] = {}
for _row in _TABLE.replace("\\\n", "").strip().splitlines():
    _names, _words, _gives, _values = (part.split() for part in _row.split("|"))
    for _program in _names:
        _PROGRAMS[_program] = _Program(frozenset(_gives), frozenset(_values), int(_words[0]))

_SHELLS: Final = frozenset(_TABLE.strip().partition("|")[0].split())
_ANSWERS: Final = frozenset(("--version", "--help"))
_MODULES: Final = frozenset("code IPython pdb ipdb asyncio bpython ptpython sqlite3".split())
"""Modules of Python that read commands when they run."""
_CONSOLES: Final = frozenset("shell dbshell console repl tinker shell_plus dbconsole".split())
_WITH_CONSOLE: Final = frozenset(
    "rails manage.py django-admin flask artisan poetry pipenv hatch deno bun swift".split()
)
_ROOMS: Final = frozenset(("tmux", "screen", "zellij", "byobu"))
_IN_ROOMS: Final = frozenset(
    "ls send send-keys kill-session kill-server has-session list-sessions capture-pane".split()
)
_BY_ITSELF: Final = frozenset(("chroot", "unshare", "nsenter"))
"""Prefixes that start a shell if they are given no command."""
_CONTAINERS: Final = frozenset("docker podman nerdctl kubectl oc docker-compose podman-compose".split())
_SSH_VALUES: Final = frozenset("-b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w -B -P".split())
_SSH_ENDS: Final = "NVGQO"
_STANDARD: Final = frozenset(("-", "/dev/stdin", "/dev/tty", "/proc/self/fd/0", "/dev/fd/0"))
"""Names of the standard input or the terminal."""


def waits(line: str, depth: int = 0) -> bool:
    """Return True if the line has a command that waits for typed input."""
    if depth > _DEPTH:
        return False
    commands = (step for step in parser.parse(line).steps if isinstance(step, parser.Command))
    return any(not _is_fed(command) and _waits(_bare(command.words), depth) for command in commands)


def _bare(words: Sequence[str]) -> list[str]:
    """Return a command without the variable assignments at its beginning."""
    remaining = list(words)
    while remaining and assignment(remaining[0]) is not None:
        del remaining[0]
    return remaining


def _is_fed(command: Command) -> bool:
    """Return True if a command's standard input is something other than typed text."""
    if command.piped is not None:
        before = _bare(command.piped.words)
        passes = bool(before) and _name(before[0]) in ("cat", "tee") and set(before[1:]) <= _STANDARD
        return not passes or _is_fed(command.piped)
    if command.stdin is not None:
        return True
    return any(sign == "<" and target not in _STANDARD for sign, target in command.redirects)


def _name(word: str) -> str:
    return word.rpartition("/")[2].removesuffix(".exe")


def _waits(argv: list[str], depth: int) -> bool:
    for _ in range(24):
        if not argv:
            return False
        inner = wrap.unwrap(_name(argv[0]), argv)
        if inner is None:
            break
        if not inner:
            if _name(argv[0]) in ("sudo", "doas"):
                return any(word in ("-i", "-s", "--login", "--shell") for word in argv[1:])
            return _name(argv[0]) in _BY_ITSELF and len(argv) > 1
        argv = inner
    program, rest = _name(argv[0]), argv[1:]
    if program in ("source", ".", "eval"):
        return any(word in _STANDARD for word in rest[:1]) or (program == "eval" and waits(" ".join(rest), depth + 1))
    if program == "su":
        return not any(word.startswith(("-c", "--command")) for word in rest)
    if program == "script":
        return not any(word.startswith(("-c", "--command")) for word in rest) or waits(" ".join(rest), depth + 1)
    if program == "ssh":
        return _ssh(rest, depth)
    if program in _ROOMS:
        return not any(word in _IN_ROOMS or word.startswith(("-d", "-l", "-X", "-V", "-v", "-ls")) for word in rest)
    if program in _CONTAINERS:
        return _container(rest, depth)
    if program == "nix-shell":
        return not any(word in ("--run", "--command") for word in rest)
    if program == "rails" and rest[:1] == ["c"]:
        return True
    if any(_name(first) in _WITH_CONSOLE and second in _CONSOLES for first, second in pairwise(argv[:4])):
        return not any(word in ("-c", "--command") for word in rest)
    description = _PROGRAMS.get(program) or _PROGRAMS.get(program.rstrip("0123456789."))
    return description is not None and _reads(program, rest, description, depth)


def _reads(program: str, rest: Sequence[str], description: _Program, depth: int) -> bool:
    """Return True if a program of the table, called with these words, reads its commands from standard input."""
    words: list[str] = []
    index, interactive = 0, False
    while index < len(rest):
        word = rest[index]
        index += 1
        option = word.partition("=")[0]
        if word == "--":
            words += rest[index:]
            break
        if word in _STANDARD:
            return program not in ("psql", "mysql", "mariadb") or word != "-"
        if not word.startswith(("-", "+")):
            words.append(word)
            if description.words == 0:
                break  # the remaining words belong to the program
            continue
        if option in _ANSWERS:
            return False
        if option in description.values:
            index += "=" not in word
        elif option in description.gives or (
            not word.startswith("--") and any(len(name) == 2 and name[1] in word[1:] for name in description.gives)
        ):
            return _given(program, word, rest[index:], depth) or (interactive and program not in _SHELLS)
        elif program in _SHELLS and not word.startswith("--") and "s" in word:
            return True
        else:
            interactive = interactive or option in ("-i", "-a", "--interactive")
    return len(words) <= description.words or (interactive and program not in _SHELLS)


def _given(program: str, option: str, rest: Sequence[str], depth: int) -> bool:
    """Return True if the argument of such an option waits itself."""
    if program in _SHELLS:
        return bool(rest) and "n" not in option and waits(rest[0], depth + 1)
    return program.startswith(("python", "pypy")) and option.endswith("m") and rest[:1] != [] and rest[0] in _MODULES


def _ssh(rest: Sequence[str], depth: int) -> bool:
    """Return True if ssh opens a remote shell without a command, or with a command that waits."""
    index, destination = 0, ""
    while index < len(rest):
        word = rest[index]
        index += 1
        if word.startswith("-") and not destination:
            if word in _SSH_VALUES:
                index += 1
            if any(letter in word for letter in _SSH_ENDS) and len(word) < 5:
                return False
        elif not destination:
            destination = word
        else:
            return waits(" ".join(rest[index - 1 :]), depth + 1)
    return bool(destination) and not destination.startswith("git@")


def _container(rest: Sequence[str], depth: int) -> bool:
    """Return True if a command opens a shell in a container that takes typed input."""
    if rest[:1] == ["attach"]:
        return True
    run = next((index for index, word in enumerate(rest[:6]) if word in ("exec", "run")), None)
    if run is None:
        return False
    by_compose = "compose" in rest[:run] and "-T" not in rest
    options = [word for word in rest[run + 1 :] if word.startswith("-")]
    is_interactive = any(
        word in ("--interactive", "--stdin") or (word[1:2] != "-" and "i" in word[1:4]) for word in options
    )
    if not is_interactive and not by_compose:
        return False
    starts = [index for index in range(run + 1, len(rest)) if _name(rest[index]) in _PROGRAMS]
    return any(_waits(list(rest[index:]), depth + 1) for index in starts[:8])
