"""The gate guards itself: finds calls that would switch it off, approve through it or rewrite it.

Looked at are shell commands, paths and addresses, by the name of the param. A mention is no act:
``echo``, ``grep`` and a commit message may speak of Callosum. The check is a quick search first, and
only where that strikes are the words of the command looked at. It makes going around the gate
loud, not impossible.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from callosum.rules import command, keys
from callosum.rules.shell import parser

_VERBS: Final = frozenset(
    "approve deny release resolve off install uninstall stop observe disable stdio token serve hook mcp".split()
)
_VALUE_OPTIONS: Final = frozenset(
    ("--state", "--db", "--rules", "--url", "--namespace", "--store", "--config", "-n", "-c")
)
_NAMED: Final = re.compile(
    r"(?:^|/)(?:\.claude/settings(?:\.local)?\.json|\.codex/(?:config\.toml|hooks(?:\.json|/.*)?)"
    r"|\.gemini/settings\.json|openclaw\.json|callosum\.toml|\.?callosum/(?:[^/]+/){0,16}tiers\.json)$"
)
_TAILS: Final = ("settings.json", "settings.local.json", "config.toml", "openclaw.json", "callosum.toml", "tiers.json")
_READERS: Final = frozenset(
    "echo printf cat less more head tail grep egrep fgrep rg ag ls stat file wc diff cmp jq yq md5sum "
    "sha256sum sha1sum which type man whereis basename dirname realpath readlink test [ [[ sort uniq "
    "cut tree du bat nl od xxd hexdump cd pwd true false : sleep ack fd history column".split()
)
_SHELLS: Final = frozenset("sh bash zsh dash ksh fish eval source . ssh parallel watch".split())
_GIT_TALK: Final = frozenset("commit log grep diff show blame status tag notes".split())
_WRITERS: Final = frozenset("tee sponge mail mailx gh glab pbcopy".split())
_INTERPRETERS: Final = frozenset("python python3 node perl ruby php deno bun".split())
_DESTROYERS: Final = frozenset("rm mv rmdir shred unlink chmod chown find".split())
_DESTROYER: Final = re.compile(r"\b(?:rm|mv|rmdir|shred|chmod|chown|find)\s")
_REWRITERS: Final = frozenset(("-i", "--in-place", "-delete", "-exec", "-execdir"))

_WRITES: Final = "it writes the gate's state, rules or a host's hook settings"
_MAY_WRITE: Final = "it may write the gate's state, rules or a host's hook settings"

ENDPOINTS: Final = frozenset(
    "intercept complete lock status brief hooks renew resolve approvals journal events late fallback metrics "
    "mcp".split()
)
"""What the paths of the gate's own server begin with. Not among them is ``/health``, which tells nothing else."""
_PLAIN_PATH: Final = re.compile(r"/([A-Za-z0-9_][\w.~-]*)(?:/[^%$\\*{}\[\]]*)?$")
_TARGET: Final = "--request-target"

_COMMAND: Final = 1
_PATH: Final = 2
_ADDRESS: Final = 3
_PATCH: Final = 4


class Guard:
    """Knows what must not be touched. ``protected`` are absolute paths, ``ports`` Callosum's own."""

    __slots__ = ("_hints", "_port", "_roots", "_touches")

    def __init__(self, protected: tuple[str, ...] = (), ports: tuple[int, ...] = (7700,)) -> None:
        roots = [keys.path(one).rstrip("/") or "/" for one in protected if one.strip()]
        homes = [re.sub(r"^(?:/home/[^/]+|/Users/[^/]+|/root)(?=/)", "~", one) for one in roots]
        self._roots = tuple(dict.fromkeys(roots + homes))
        numbers = "|".join(str(int(port)) for port in ports) or "(?!)"
        loopback = r"\blocalhost|\b127(?:\.\d{1,3}){1,3}|\b0\.0\.0\.0|::1\]?|\b0x7f[0-9a-f]*|\b2130706433"
        self._port = re.compile(rf"(?:{loopback})[:/\s]+(?:{numbers})\b([^\s\"'`;|&<>()?#]{{0,2048}})", re.IGNORECASE)
        names = ("callosum", ".claude", ".codex", ".gemini", "openclaw.json")
        self._hints = (
            *names,
            *(str(port) for port in ports),
            *(one.lower() for one in self._roots if one != "/"),
        )
        # Sessions touch the same few files again and again.
        self._touches = lru_cache(maxsize=2048)(self.touches)

    def reason(
        self, params: Mapping[str, Any], which: tuple[tuple[str, int], ...], cwd: str | None
    ) -> tuple[str, bool] | None:
        """Returns why a call is a danger to the gate, None if it is none; ``which`` are its params to look at.

        The flag tells that it holds for a changing call only: reading the file is harmless.
        """
        for name, role in which:
            value = params[name]
            if value:
                found = self._text(role, value, cwd) if type(value) is str else self._look(role, value, cwd)
                if found is not None:
                    return found
        return None

    def _look(self, role: int, value: Any, cwd: str | None, depth: int = 0) -> tuple[str, bool] | None:
        if type(value) is str:
            return self._text(role, value, cwd)
        if isinstance(value, (list, tuple)):
            if role == _COMMAND:
                return self._command(" ".join(one for one in islice(value, 4096) if isinstance(one, str)), cwd)
            inner = [(role, one) for one in islice(value, 256) if isinstance(one, str) or depth < 2]
        elif isinstance(value, Mapping) and depth < 2:
            inner = [(_role(name), one) for name, one in islice(value.items(), 64) if isinstance(name, str)]
        else:
            return None
        for known, one in inner:
            found = self._look(known, one, cwd, depth + 1) if known else None
            if found is not None:
                return found
        return None

    def _text(self, role: int, value: str, cwd: str | None) -> tuple[str, bool] | None:
        if role == _COMMAND:
            return self._command(value, cwd)
        if role == _ADDRESS:
            return self._address(value, cwd)
        if role == _PATH:
            suspicious = self._roots or value.endswith(_TAILS) or "hooks" in value
            return self._path(value, cwd) if suspicious else None
        if not self._roots and not self._hinted(value):
            return None
        return next((found for one in command.patched({"patch": value}) if (found := self._path(one, cwd))), None)

    def _address(self, value: str, cwd: str | None) -> tuple[str, bool] | None:
        if self._talks(value[:4096]):
            return "it talks to the gate's own port", False
        return self._path(value, cwd) if value[:7] == "file://" else None

    def _path(self, value: str, cwd: str | None) -> tuple[str, bool] | None:
        if len(value) > keys.MAX_VALUE or not value.strip():
            return None
        known = self._touches(value, cwd) if len(value) <= 512 else self.touches(value, cwd)
        if known:
            return _WRITES, True
        return None

    def touches(self, value: str, cwd: str | None, *, around: bool = False) -> bool:
        """Tells whether a path is protected; with ``around`` also whether something protected lies in it."""
        value = value.strip().replace("$HOME/", "~/").replace("${HOME}/", "~/")
        if not value:
            return False
        path = keys.path(value, cwd).rstrip("/")
        if _NAMED.search(path):
            return True
        for root in self._roots:
            if path.startswith(root) and (len(path) == len(root) or path[len(root)] == "/"):
                return True
            if around and root.startswith(path + "/"):
                return True
        return False

    def _hinted(self, text: str) -> bool:
        """Tells at the price of a few substring searches whether a text needs a closer look."""
        low = text.lower()
        for hint in self._hints:  # noqa: SIM110 - a generator costs more than the searches
            if hint in low:
                return True
        return False

    def _command(self, text: str, cwd: str | None) -> tuple[str, bool] | None:
        # What lies above a protected folder is meant without being named.
        above = bool(self._roots) and _DESTROYER.search(text, 0, command.MAX_COMMAND) is not None
        if not (above or self._hinted(text) or (cwd and self._hinted(cwd))):
            return None
        if len(text) > command.MAX_COMMAND and self._hinted(text[command.MAX_COMMAND - 256 :]):
            return "it speaks of the gate and is too long to be read", False
        return self._line(text, cwd, 0)

    def _line(self, text: str, cwd: str | None, depth: int) -> tuple[str, bool] | None:
        where = cwd
        piped = ""
        commands = _commands(text, depth)
        programs = {program for _, program, _ in commands}
        shells = _runs_text(commands, programs)
        code = not programs.isdisjoint(_INTERPRETERS)
        for simple, program, document in commands:
            argv = simple.argv()
            for target in simple.writes:
                if self.touches(target, where):
                    return _WRITES, False
            if program == "cd" and len(argv) > 1:
                where = keys.path(argv[1], where)
                continue
            found = self._simple(program, argv, where, piped)
            if found:
                return found, False
            if document and (shells or code or not _only_text(program, argv)):
                if code and self._mentions(document, where):
                    return _MAY_WRITE, False
                inner = self._line(document, where, depth + 1)
                if inner is not None:
                    return inner
            # What a reader says, the next command of the pipe may run.
            piped = " ".join(simple.words) if simple.end == "|" else ""
        return None

    def _simple(self, program: str, argv: list[str], cwd: str | None, piped: str) -> str:
        spoken = " ".join(argv)
        if _runs_callosum(program, argv):
            return "it decides or switches off through Callosum itself"
        if program in _SHELLS:
            inner = piped + "\n" + spoken
            if any(_runs_callosum(*one) for one in _inner_commands(inner)) or self._talks(inner):
                return "it decides or switches off through Callosum itself"
            if self._mentions(inner, cwd):
                return _MAY_WRITE
        if program == "xargs" or program in _READERS or _is_git_talk(program, argv):
            return ""
        if self._talks(spoken):
            return "it talks to the gate's own port"
        if program in ("cp", "rsync", "scp", "install", "ln") and len(argv) > 2:
            argv = [argv[0], argv[-1]]  # the source is only read
        if (
            program in ("sed", "awk", "gawk", "find", "perl")
            and program != "perl"
            and not any(one[:2] == "-i" or one in _REWRITERS for one in argv[1:])
        ):
            return ""
        destroys = program in _DESTROYERS
        for word in argv[1:]:
            value = word.partition("=")[2] if word[:1] == "-" and "=" in word else word
            if value[:1] != "-" and self.touches(value, cwd, around=destroys):
                return _WRITES
        if program in _INTERPRETERS and self._mentions(spoken, cwd):
            return _MAY_WRITE
        return ""

    def _talks(self, text: str) -> bool:
        """Tells whether a text may speak to the gate's port: not where each address is plainly another service's."""
        found = self._port.findall(text)
        return bool(found) and (_TARGET in text or any(_may_be_ours(path) for path in found))

    def _mentions(self, text: str, cwd: str | None) -> bool:
        """Tells whether a path that is protected stands anywhere in a piece of code."""
        return any(
            self.touches(word, cwd) for word in re.findall(r"[~\w./$:{}\\-]{3,1024}", text[: command.MAX_COMMAND])
        )


def _commands(text: str, depth: int) -> list[tuple[command.Simple, str, str]]:
    """Returns the simple commands of a line, each with its program and the here-document it reads, ``""`` if none.

    Of a line in which a shell would see something odd each line of a here-document is taken for a command.
    """
    read = parser.parse(text[: command.MAX_COMMAND]) if "<<" in text and depth < _DEEPEST else None
    if read is None or read.odd or read.cut:
        return [(one, _program(one), "") for one in command.simple_commands(text)]
    found = []
    for step in read.steps:
        if isinstance(step, parser.Command):
            simple = command.Simple()
            simple.words = step.words
            simple.writes = [target for sign, target in step.redirects if ">" in sign]
            simple.end = "|" if step.end == "|&" else step.end
            found.append((simple, _program(simple), step.stdin or ""))
    return found


def _program(simple: command.Simple) -> str:
    argv = simple.argv()
    return _base(argv[0]) if argv else ""


def _runs_text(commands: list[tuple[command.Simple, str, str]], programs: set[str]) -> bool:
    """Tells whether a line may run what stands in its here-documents: by a shell, or as a file that it writes."""
    if not programs.isdisjoint(_SHELLS) or "xargs" in programs:
        return True
    if any("$" in one or " " in one for one in programs):
        return True
    return any(
        _base(target) in programs
        for simple, program, _ in commands
        for target in (*simple.writes, *(simple.words if program in _WRITERS else ()))
        if _base(target) != program
    )


def _base(path: str) -> str:
    return path.rsplit("/", 1)[-1]


_DEEPEST: Final = 4
"""How deep here-documents that shells read are looked into as documents."""


def _only_text(program: str, argv: list[str]) -> bool:
    """Tells whether a here-document is no more than text to the program that reads it."""
    return program in _READERS or program in _WRITERS or _is_git_talk(program, argv)


def _is_git_talk(program: str, argv: list[str]) -> bool:
    return program == "git" and not _GIT_TALK.isdisjoint(argv[1:4])


def _may_be_ours(path: str) -> bool:
    match = _PLAIN_PATH.match(path)
    return match is None or ".." in path or match.group(1).lower() in ENDPOINTS


def _inner_commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yields the commands that a shell would find inside its own arguments."""
    for simple in command.simple_commands(text.replace("'", " ").replace('"', " ")):
        argv = simple.argv()
        for at in range(min(len(argv), 64)):
            yield _base(argv[at]), argv[at:]


def _runs_callosum(program: str, argv: list[str]) -> bool:
    """Tells whether a simple command runs one of Callosum's deciding commands, or speaks as a host's hook does."""
    if program == "callosum-hook":
        return True
    words = argv[1:]
    if (
        program in ("uv", "uvx", "pipx", "poetry", "pdm", "hatch", "rye", "npx")
        or program.startswith("python")
        or program == "py"
    ):
        if "callosum" in words:
            place = words.index("callosum")
            if program.startswith("py") and "-m" not in words[:place] and program != "pypy":
                return False
        elif "-mcallosum" in words:
            place = words.index("-mcallosum")
        else:
            scripts = [at for at, one in enumerate(words) if _base(one) == "callosum"]
            if not scripts:
                return (
                    program in ("uv", "pipx") and "uninstall" in words and any("callosum" in one for one in words)
                ) or ("pip" in words and "uninstall" in words and any(one.startswith("callosum") for one in words))
            place = scripts[0]
        words = words[place + 1 :]
    elif program.startswith("pip"):
        return "uninstall" in words and any(one.startswith("callosum") for one in words)
    elif program in ("pkill", "killall", "systemctl", "launchctl", "service"):
        return any("callosum" in one for one in words) and "status" not in words
    elif program != "callosum":
        return False
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in _VALUE_OPTIONS:
            skip = True
        elif word[:1] != "-":
            return word in _VERBS or (
                word in ("rules", "hooks", "lock", "server", "approvals") and bool(_VERBS.intersection(words))
            )
    return False


def guarded(names: tuple[Any, ...]) -> tuple[tuple[str, int], ...]:
    """Returns those of a call's params at which the guard looks, with what each holds."""
    return tuple([(name, role) for name in names if isinstance(name, str) and (role := _role(name))])


def _role(name: str) -> int:
    """Returns what a param of this name holds: a command, a path, an address, a patch, or 0."""
    low = name.lower()
    role = _ROLES.get(low)
    if role is None:
        role = 0 if not low.endswith(_ENDS) else _ADDRESS if low.endswith(_OF_ADDRESSES) else _PATH
    return role


_ROLES: Final = {
    **dict.fromkeys(
        "file files filename dest destination target dst to source src from edits output folder".split(), _PATH
    ),
    **dict.fromkeys("patch diff patchtext input".split(), _PATCH),
    **dict.fromkeys((*map(str.lower, command.PARAMS), "commandline", "args", "argv"), _COMMAND),
}
_OF_ADDRESSES: Final = ("url", "uri", "endpoint", "address", "href")
_ENDS: Final = (*_OF_ADDRESSES, "path", "paths", "filename", "_file", "file_name", "dir", "directory")
