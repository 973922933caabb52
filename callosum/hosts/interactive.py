"""Which command lines start a program that would take its commands from whoever types into it later.

``bash`` waits, ``bash run.sh``, ``bash -c "make"`` and ``echo make | bash`` do not. A line that cannot be read as one,
and a program that is not listed, count as not waiting. Pure.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from callosum.rules.shell import parser, wrap
from callosum.rules.shell.words import assignment

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from callosum.rules.shell.parser import Command

_DEPTH: Final = 4
"""How many command lines within command lines are followed."""


class _Program(NamedTuple):
    """How a program is called so that it does not wait.

    ``gives``: options that bring its commands, or that it answers and ends with. ``values``: options that take the
    next word. ``words``: with more words beside its options than so many it has its commands.
    """

    gives: frozenset[str]
    values: frozenset[str]
    words: int


# the programs | the words with which they still wait | what gives them their commands | what takes a value
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
"""Modules of Python that read commands when they are run."""
_CONSOLES: Final = frozenset("shell dbshell console repl tinker shell_plus dbconsole".split())
_WITH_CONSOLE: Final = frozenset(
    "rails manage.py django-admin flask artisan poetry pipenv hatch deno bun swift".split()
)
_ROOMS: Final = frozenset(("tmux", "screen", "zellij", "byobu"))
_IN_ROOMS: Final = frozenset(
    "ls send send-keys kill-session kill-server has-session list-sessions capture-pane".split()
)
_BY_ITSELF: Final = frozenset(("chroot", "unshare", "nsenter"))
"""Prefixes that start a shell where they are given no command."""
_CONTAINERS: Final = frozenset("docker podman nerdctl kubectl oc docker-compose podman-compose".split())
_SSH_VALUES: Final = frozenset("-b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w -B -P".split())
_SSH_ENDS: Final = "NVGQO"
_STANDARD: Final = frozenset(("-", "/dev/stdin", "/dev/tty", "/proc/self/fd/0", "/dev/fd/0"))
"""What names the text that is typed."""


def waits(line: str, depth: int = 0) -> bool:
    """Whether a command line has a command that waits for what is typed into it."""
    if depth > _DEPTH:
        return False
    commands = (step for step in parser.parse(line).steps if isinstance(step, parser.Command))
    return any(not _is_fed(command) and _waits(_bare(command.words), depth) for command in commands)


def _bare(words: Sequence[str]) -> list[str]:
    """A command without the variables that it begins by setting."""
    left = list(words)
    while left and assignment(left[0]) is not None:
        del left[0]
    return left


def _is_fed(command: Command) -> bool:
    """Whether something else than what is typed reaches a command's standard input."""
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
            return _opens_shell(_name(argv[0]), argv[1:])
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
    if any(_name(one) in _WITH_CONSOLE and two in _CONSOLES for one, two in pairwise(argv[:4])):
        return not any(word in ("-c", "--command") for word in rest)
    known = _PROGRAMS.get(program) or _PROGRAMS.get(program.rstrip("0123456789."))
    return known is not None and _reads(program, rest, known, depth)


def _opens_shell(program: str, options: Sequence[str]) -> bool:
    """Whether a prefix that was given no command runs a shell."""
    if program in ("sudo", "doas"):
        return any(word in ("-i", "-s", "--login", "--shell") for word in options)
    return program in _BY_ITSELF and bool(options)


def _reads(program: str, rest: Sequence[str], known: _Program, depth: int) -> bool:
    """Whether a program of the table, called so, reads its commands from standard input."""
    words: list[str] = []
    at, interactive = 0, False
    while at < len(rest):
        word = rest[at]
        at += 1
        option = word.partition("=")[0]
        if word == "--":
            words += rest[at:]
            break
        if word in _STANDARD:
            return program not in ("psql", "mysql", "mariadb") or word != "-"
        if not word.startswith(("-", "+")):
            words.append(word)
            if known.words == 0:
                break  # what follows is the program's own
            continue
        if option in _ANSWERS:
            return False
        if option in known.values:
            at += "=" not in word
        elif option in known.gives or _cluster(word, known.gives):
            return _given(program, word, rest[at:], depth) or (interactive and program not in _SHELLS)
        elif program in _SHELLS and not word.startswith("--") and "s" in word:
            return True
        else:
            interactive = interactive or option in ("-i", "-a", "--interactive")
    return len(words) <= known.words or (interactive and program not in _SHELLS)


def _cluster(word: str, gives: Iterable[str]) -> bool:
    """Whether short options that are written as one word (``-lc``) have one of those among them."""
    return not word.startswith("--") and any(len(one) == 2 and one[1] in word[1:] for one in gives)


def _given(program: str, option: str, rest: Sequence[str], depth: int) -> bool:
    """Whether what a program is given after such an option waits itself."""
    if program in _SHELLS:
        return bool(rest) and "n" not in option and waits(rest[0], depth + 1)
    return program.startswith(("python", "pypy")) and option.endswith("m") and rest[:1] != [] and rest[0] in _MODULES


def _ssh(rest: Sequence[str], depth: int) -> bool:
    """A remote shell without a command, or with one that waits."""
    at, place = 0, ""
    while at < len(rest):
        word = rest[at]
        at += 1
        if word.startswith("-") and not place:
            if word in _SSH_VALUES:
                at += 1
            if any(letter in word for letter in _SSH_ENDS) and len(word) < 5:
                return False
        elif not place:
            place = word
        else:
            return waits(" ".join(rest[at - 1 :]), depth + 1)
    return bool(place) and not place.startswith("git@")


def _container(rest: Sequence[str], depth: int) -> bool:
    """A shell in a container that is open to what is typed."""
    if rest[:1] == ["attach"]:
        return True
    run = next((at for at, word in enumerate(rest[:6]) if word in ("exec", "run")), None)
    if run is None:
        return False
    composed = "compose" in rest[:run] and "-T" not in rest
    options = [word for word in rest[run + 1 :] if word.startswith("-")]
    asked = any(word in ("--interactive", "--stdin") or (word[1:2] != "-" and "i" in word[1:4]) for word in options)
    if not asked and not composed:
        return False
    starts = [at for at in range(run + 1, len(rest)) if _name(rest[at]) in _PROGRAMS]
    return any(_waits(list(rest[at:]), depth + 1) for at in starts[:8])
