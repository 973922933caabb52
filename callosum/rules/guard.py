"""The gate guards itself: finds calls that would switch it off, decide through it or change its files.

A command line is judged by ``shell/selfguard.py`` with the commands and files that the shell rules extract from it.
This module looks at the other params of a call, by their names: paths, addresses, patches and program text.
``Protected`` knows the files. A mention is no act: ``echo``, ``grep`` and a commit message may speak of Callosum.
The guard makes it loud to go around the gate; it cannot make it impossible.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from callosum.programs import GUARDED, HOSTS
from callosum.rules import command, keys
from callosum.rules import lexicon as lex
from callosum.rules.lexicon import lists
from callosum.rules.protected import OPEN, STATE, TREES, Protected

TALKS: Final = "it talks to the gate's own port"

MAX_TALK: Final = 16_384
"""How much of a command is searched for the gate's address, in characters."""
_PLAIN_PATH: Final = re.compile(r"/([A-Za-z0-9_][\w.~-]*)(?:/[^%$\\*{}\[\]]*)?$")
_TARGET: Final = "--request-target"
_CONSOLE: Final = re.compile(r"\bcallosum-[0-9a-f]{16}\.localhost", re.IGNORECASE)
"""The name of a console, which is a person's."""
_CONSOLE_LIKE: Final = re.compile(r"[^\x20-\x7e]|%[0-9a-f]{2}", re.IGNORECASE)
"""What may stand for another letter in the name of a host."""
_ESCAPE: Final = re.compile(r"%([0-7][0-9a-f])", re.IGNORECASE)
_NOT_READ: Final = re.compile(r"[\t\n\r\u00ad\u200b-\u200d\u2060\ufe00-\ufe0f\ufeff]")
"""What browsers leave out of an address."""
_LOOPBACK: Final = (
    r"\blocalhost|\bip6-localhost|\b127(?:\.\d{1,3}){1,3}|\b0\.0\.0\.0|::1\]?|\b0x7f[0-9a-f]*"
    r"|\b2130706433|\b0177[0-7.]*"
)
_TAILS: Final = (
    *{path.rpartition("/")[2] for host in HOSTS for path in host.guards if path[-1] != "/"},
    *("callosum.toml", "tiers.json"),
)

_REMEMBERED: Final = 512
"""Maximum length in characters of a path whose answer is kept."""
_SHORTEST_CODE: Final = 8
"""Program text of at most this many characters does nothing to the gate."""

_COMMAND: Final = 1
_PATH: Final = 2
_ADDRESS: Final = 3
_PATCH: Final = 4
_SOURCE: Final = 5
_CODE: Final = 6


class Guard:
    """Knows what must not be touched.

    ``protected`` maps absolute paths to what they are, in words; ``ports`` are Callosum's own.
    """

    __slots__ = ("_hints", "_port", "_touched", "near", "port_number", "protected")

    def __init__(self, protected: Mapping[str, str] | Iterable[str] = (), ports: tuple[int, ...] = (7700,)) -> None:
        named = protected if isinstance(protected, Mapping) else dict.fromkeys(protected, STATE)
        self.protected = Protected(named)
        numbers = "|".join(str(int(port)) for port in ports) or "(?!)"
        self._port = re.compile(
            rf"(?:{_LOOPBACK})[\"',:/\s]{{1,8}}(?:{numbers})\b([^\s\"'`;|&<>()?#]{{0,2048}})", re.IGNORECASE
        )
        self.port_number = re.compile(rf"(?<!\d)(?:{numbers})(?!\d)")
        self.near = re.compile(rf"{self.protected.names}|{numbers}|Gate\(|isableAllHooks|sock")
        """Finds what every program text that is a danger to the gate holds."""
        names = ("callosum", *GUARDED)
        self._hints = (*names, *(str(port) for port in ports), *(text.lower() for text in self.protected.texts))
        # Sessions touch the same few files again and again.
        self._touched = lru_cache(maxsize=2048)(self.touched)

    def reason(
        self, params: Mapping[str, Any], which: tuple[tuple[str, int], ...], cwd: str | None, *, reads: bool = False
    ) -> tuple[str, str] | None:
        """Return why a call is a danger to the gate, None if it is none; ``which`` are its params to look at.

        The second text tells for which calls it holds: ``""`` for all, ``write`` for those that change something,
        ``move`` for those that remove or move what they name. ``reads``: the call does neither.
        """
        for name, role in which:
            value = params[name]
            if value and not (reads and role in (_PATH, _SOURCE) and type(value) is str):
                found = self._look(role, value, cwd)
                if found is not None:
                    return found
        return None

    def line(self, value: Any) -> str:
        """Return a command line, if a value is one and speaks of something guarded, else ``""``."""
        if isinstance(value, (list, tuple)):
            value = " ".join([item for item in islice(value, 4096) if isinstance(item, str)])
        return value if isinstance(value, str) and self.hinted(value) else ""

    def code(self, value: Any) -> str:
        """Return a program text, if a value is one and may do something to the gate, else ``""``."""
        if type(value) is not str or len(value) <= _SHORTEST_CODE:
            return ""
        low = value[: command.MAX_COMMAND].lower()
        return value if self.hinted(value) or any(hint in low for hint in lists.GATE_CODE_HINTS) else ""

    def _look(self, role: int, value: Any, cwd: str | None, depth: int = 0) -> tuple[str, str] | None:
        if type(value) is str:
            if role in (_PATH, _SOURCE):
                return self._path(role, value, cwd)
            if role == _ADDRESS:
                if self.talks(value[:4096]):
                    return TALKS, ""
                return self._path(_PATH, value, cwd) if value[:7] == "file://" else None
            if role != _PATCH or not (self.protected.roots or self.hinted(value)):
                return None
            paths = command.patched({"patch": value})
            return next((found for path in paths if (found := self._path(_PATH, path, cwd))), None)
        if isinstance(value, (list, tuple)):
            inner = [(role, held) for held in islice(value, 256) if isinstance(held, str) or depth < 2]
        elif isinstance(value, Mapping) and depth < 2:
            inner = [(_role(name), item) for name, item in islice(value.items(), 64) if isinstance(name, str)]
        else:
            return None
        for known, entry in inner:
            found = self._look(known, entry, cwd, depth + 1) if known and known != _COMMAND else None
            if found is not None:
                return found
        return None

    def _path(self, role: int, value: str, cwd: str | None) -> tuple[str, str] | None:
        if not (self.protected.roots or value.endswith(_TAILS) or any(tree in value for tree in TREES)):
            return None
        if len(value) > _REMEMBERED:
            known = self.touched(value, cwd) if len(value) <= keys.MAX_VALUE else None
        else:
            known = self._touched(value, cwd)
        if not known:
            return None
        what, above = known
        if above:
            return f"it would take {what} with it", "move"
        return f"it would change {what}", "move" if role == _SOURCE else "write"

    def touched(self, value: str, cwd: str | None) -> tuple[str, bool] | None:
        """Return what a path is, in words, and whether it only holds it; None if it is nothing protected."""
        value = value.strip().replace("$HOME/", "~/").replace("${HOME}/", "~/")
        if not value:
            return None
        path = keys.path(value, cwd)
        what = self.protected.touched(path)
        if what:
            return what, False
        what = self.protected.touched(path, whole=True)
        return (what, True) if what else None

    def is_near(self, text: str) -> bool:
        """Return True if the words of a command may be a danger to the gate."""
        return self.near.search(text) is not None or OPEN.search(text) is not None

    def hinted(self, text: str) -> bool:
        """Return True if a text may be about something guarded; costs a few substring searches."""
        low = text.lower()
        if '"' in low or "'" in low or "\\" in low:
            low = low.replace('"', "").replace("'", "").replace("\\", "")
        for hint in self._hints:  # noqa: SIM110 - a generator costs more than the searches
            if hint in low:
                return True
        return False

    def talks(self, text: str) -> bool:
        """Return True if a text may speak to the gate's port: not where each address is plainly another service's."""
        text = text[:MAX_TALK]
        if _CONSOLE.search(text) or (_CONSOLE_LIKE.search(text) and _CONSOLE.search(_host_as_read(text))):
            return True
        found = self._port.findall(text)
        if not found or _TARGET in text:
            return bool(found)
        plain = [(path, _PLAIN_PATH.match(path)) for path in found]
        return any(
            match is None or ".." in path or match.group(1).lower() in lex.GATE_ENDPOINTS for path, match in plain
        )


def _host_as_read(text: str) -> str:
    """Return a text with host names as a browser reads them: percent signs, wide letters, line ends taken out."""
    text = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
    text = unicodedata.normalize("NFKC", text).replace("\u3002", ".")
    return _NOT_READ.sub("", text)


def guarded(names: tuple[Any, ...]) -> tuple[tuple[tuple[str, int], ...], tuple[str, ...], tuple[str, ...]]:
    """Return the params at which ``Guard.reason`` looks, with what each holds, the command lines and the programs."""
    roles = [(name, role) for name in names if isinstance(name, str) and (role := _role(name))]
    commands = tuple([name for name, role in roles if role == _COMMAND])
    programs = tuple([name for name, role in roles if role == _CODE])
    return tuple([pair for pair in roles if pair[1] != _COMMAND]), commands, programs


def _role(name: str) -> int:
    """Return what a param of this name holds: a command, a path, an address, a patch, program text, or 0."""
    low = name.lower()
    role = _ROLES.get(low)
    if role is None:
        role = 0 if not low.endswith(_ENDS) else _ADDRESS if low.endswith(_OF_ADDRESSES) else _PATH
        if role == _PATH and low.startswith(("source", "src", "from", "old")):
            role = _SOURCE
    return role


_ROLES: Final = {
    **dict.fromkeys("file files filename dest destination target dst to edits output folder".split(), _PATH),
    **dict.fromkeys("source src from sources".split(), _SOURCE),
    **dict.fromkeys("patch diff patchtext input".split(), _PATCH),
    **dict.fromkeys((*map(str.lower, lists.COMMAND_PARAMS), "commandline", "args", "argv"), _COMMAND),
    **dict.fromkeys("code python javascript python_code py_code source_code".split(), _CODE),
}
_OF_ADDRESSES: Final = ("url", "uri", "endpoint", "address", "href")
_ENDS: Final = (*_OF_ADDRESSES, "path", "paths", "filename", "_file", "file_name", "dir", "directory")
