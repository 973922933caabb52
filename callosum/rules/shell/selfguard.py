"""Find what a command line would do to the gate itself, while the shell rules judge the line.

``Watch`` is told of every simple command with its words after unwrapping, of every file that a command writes,
removes or moves, and of the program text and documents in the line. It keeps the first danger it finds. It judges
what commands do: a line that only speaks of Callosum, or reads its files, passes.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Final

from callosum.programs import HOSTS, WITH_HOOKS
from callosum.rules import lexicon as lex
from callosum.rules.guard import TALKS
from callosum.rules.protected import admits
from callosum.rules.shell import places, programs
from callosum.rules.shell.parser import Command
from callosum.rules.shell.programs import groups, maps

if TYPE_CHECKING:
    from callosum.rules.guard import Guard
    from callosum.rules.shell.run import Run


MAX_TEXT: Final = 65_536
"""How much of one word or program text is searched, and of all documents of a line together, in characters."""
MAX_SEEN: Final = 64
"""Number of places of a word that are looked at in a line that is too long to be read."""
MAX_DOCUMENTS: Final = 64
"""Number of documents of a line that are judged at the line's end."""

MAX_SEARCHES: Final = 32
"""Number of different searches of a line that are tried on each protected file."""
MAX_FOUND: Final = 24
"""Number of protected files that are handed to the command behind a search."""

_HOSTS: Final = frozenset(name for host in HOSTS for name in (host.program, *host.also))

_SPEAKERS: Final = programs.SPEAKERS | {host.program for host in WITH_HOOKS.values()}
"""Programs to which a command line is no more than text for people or models."""
_MOVED: Final = re.compile(
    r"\b(?:move|renames?|renameSync|replace)\s{0,4}\(\s{0,8}(?:\"([^\"\n]{1,1024})\"|'([^'\n]{1,1024})')"
)
_SCRIPT_WRITES: Final = re.compile(r"[>|]\s{0,4}\"|(?:^|[\s;/}\d$])[wW]\s")

_NAMES_IT: Final = re.compile(r"(?<![\w.-])callosum(?![\w./-])")
_PROCESS: Final = re.compile(r"callosum(?![\w-])")
_MODULE: Final = re.compile(r"-[A-Za-z]{0,8}m$")
_HOOK: Final = "callosum-hook"
"""How the names of hooks in a state folder begin: the script, the native client, the script that asks a server."""
_LAUNCHER: Final = "/callosum/launch.py"
"""The file that starts every process of Callosum: see `callosum.launch`."""
_INSIDE: Final = re.compile(r"[^\s()`$;|&<>\"']+")
_BRACKETS: Final = str.maketrans("", "", "[]^$*\\")
_SCHEDULE: Final = re.compile(r"^\s{0,8}(?:@\w{1,16}|(?:\S{1,64}\s{1,8}){5})")
_NET: Final = re.compile(r"/dev/(?:tcp|udp)/([^/]{1,128})/(\S{1,16})")
_STRINGS: Final = re.compile(r"\"([^\"\n]{0,1024})\"|'([^'\n]{0,1024})'|`([^`\n]{0,1024})`")
_API: Final = re.compile(
    r"\.\s{0,4}(?:observe|approve|deny|resolve|release|answer|accept|unlock|rotate|stop|uninstall|install|main|serve)"
    r"\s{0,4}\(|callosum\.cli|runpy|run_module|import_module|__import__|getattr"
)
_OF_API: Final = re.compile(
    r"(?:\bimport\s{1,4}callosum|from\s{1,4}callosum|callosum\.|LocalGate|AsyncGate|CallosumClient|"
    r"AsyncCallosumClient|['\"]callosum)"
)
_WRITES: Final = re.compile(
    r"['\"][wax]b?\+?b?['\"]|['\"]r\+b?['\"]|writ|kill|unlink|remov|rmtree|rmdir|\brm|renam|replac|mov|cop[yi]|chmod|chown"
    r"|truncat|link|connect|subprocess|system|exec|spawn|popen|dump\(|mkdir|touch|\bsave|delet|eval|getattr"
    r"|__import__|b64|append|File\.|open\s{0,4}\(?\s{0,4}[\"']?[+>]",
    re.IGNORECASE,
)
_ARGUMENT: Final = re.compile(
    r"((?<!\w)\w{1,32}(?!\w)|\w(?!\w)|)\s{0,4}\(?\s{0,4}(?:\"([^\"\n]{1,1024})\"|'([^'\n]{1,1024})'|`([^`\n]{1,1024})`)"
)
_CONNECTS: Final = re.compile(
    r"urlopen|request|httpx|aiohttp|fetch|onnect|socket|axios|curl|http\.|https\.|HTTP|LWP|open|got|file_get_contents"
    r"|exec|spawn|system|popen|subprocess|`"
)
_STARTS: Final = re.compile(r"exec|spawn|system|popen|subprocess|check_|shell|Command|`", re.IGNORECASE)
_WORD_SEARCH: Final = re.compile(r"(?:^|[\s;&|(){}`/])callosum\s{1,8}([\w$-]{1,32})")
"""How a line that is too long to be read is searched: Callosum as a word, and the word behind it."""


def _is_hook(word: str) -> bool:
    """Return whether a word is the path of a hook."""
    return " " not in word and word.rsplit("/", 1)[-1].startswith(_HOOK)


class Watch:
    """What is known of one line's danger to the gate. ``danger`` is the first that was found, in words."""

    __slots__ = ("danger", "documents", "guard", "inside", "named", "odd", "paused", "programs", "searches", "sought")

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self.danger = ""
        self.paused = 0  # above 0: files are not judged, because a pattern takes the place of what a search finds
        self.documents: list[tuple[str, tuple[str, ...]]] = []
        self.programs: set[str] = set()
        self.named: set[str] = set()  # base names of what shells and interpreters are given
        self.inside = False
        self.sought = False  # a command of the line looked for Callosum's processes
        self.odd = False  # no shell would take the line: every document in it counts as commands
        self.searches: dict[tuple[str, ...], list[str]] = {}

    # --- Files ---

    def file(self, run: Run, found: places.Place, *, whole: bool, always: bool = False) -> None:
        """Look at a file that is written, removed or moved; ``whole``: with everything below it."""
        if self.danger or (self.paused and not always) or not _is_here(run):
            return
        path = found.path if not found.rest else f"{found.path.rstrip('/')}/{found.rest}" if found.path else found.rest
        what = self.guard.protected.touched(path, whole=whole) if path else ""
        if what:
            self.danger = f"it would change {what}"

    def word(self, run: Run, word: str, *, whole: bool = False, always: bool = False) -> None:
        """Look at a path that a command changes."""
        if word and not self.danger:
            self.file(run, run.place(word), whole=whole, always=always)

    def redirected(self, target: str) -> None:
        """Look at the target of a redirection: bash opens a connection for ``/dev/tcp/...``."""
        match = _NET.match(target)
        if match and self.guard.talks(f"{match.group(1)}:{match.group(2)}"):
            self.danger = self.danger or TALKS

    def entries(self, words: list[str], starts: list[str], run: Run) -> list[str]:
        """Return the protected entries that a ``find`` with these words would hand over."""
        if self.danger or not _is_here(run):
            return []
        search = (run.where.here or "", *words)
        known = self.searches.get(search)
        if known is None:
            known = self.searches[search] = self._entries(words, starts, run)
        return known

    def _entries(self, words: list[str], starts: list[str], run: Run) -> list[str]:
        found: dict[str, None] = {}
        for start in starts[:16]:
            place = run.place(start)
            base = f"{place.path.rstrip('/')}/{place.rest}".rstrip("/") if place.rest else place.path
            many = len(self.searches) >= MAX_SEARCHES
            if base and (many or any(one in base for one in "*?[$`{")):
                what = self.guard.protected.touched(base, whole=many)
                if what and many:
                    self.danger = f"it searches too often to be read, and may change {what}"
                elif what:
                    found[base] = None
                continue
            for one in self.guard.protected.below(base) if base else ():
                if admits(words, one):
                    found[one.path] = None
        return list(found)[:MAX_FOUND]

    # --- Commands ---

    def command(self, run: Run, program: str, argv: list[str], command: Command) -> None:
        """Look at one simple command, after all its prefixes."""
        self.programs.add(program)
        if self.danger:
            return
        bare = program
        if program[-1:].isdigit():
            bare = program.rstrip("0123456789.") or program
        words = argv[1:]
        self._follow(run, program, bare, words, command)
        here = run.where.here
        if not self.guard.is_near(" ".join(argv)[:MAX_TEXT]) and (here is None or self.guard.near.search(here) is None):
            return
        if "$(" in argv[0] or "`" in argv[0]:
            program = "callosum" if _NAMES_IT.search(argv[0][:MAX_TEXT]) else program
        reason = self._own(program, bare, words)
        if reason:
            self.danger = reason
            return
        if program in programs.TAKES_A_SCRIPT:
            self._script(run, words)
        if program in programs.READERS or program in _SPEAKERS or program == "git":
            return
        said = words
        if program == "curl":
            said = [one for at, one in enumerate(words) if not (at and words[at - 1] in programs.CURL_TEXT_OPTIONS)]
        elif bare in programs.INTERPRETERS:
            said = [one for one in words if "(" not in one]  # program text is judged by itself
        spoken = " ".join(said)[:MAX_TEXT]
        if self.guard.talks(spoken):
            self.danger = TALKS
            return
        if program in programs.MOUNTS_FOLDERS:  # what runs inside is judged by itself
            given = [one for at, one in enumerate(words) if at and words[at - 1] in programs.MOUNT_OPTIONS]
            given += [one for one in words if one.startswith(("-v", "--volume=", "--mount="))]
            self._words(run, program, bare, [*given, *(words[-1:] if "cp" in words[:2] else [])])
        elif program not in programs.NAMES_EACH_FILE and bare not in programs.RUNS_LINES:
            self._words(run, program, bare, words)

    def _follow(self, run: Run, program: str, bare: str, words: list[str], command: Command) -> None:
        """Look at what a command ends, and at the texts that it runs."""
        if program in programs.ENDS_PROCESSES or bare == "fuser":
            self._kill(run, bare, words, command)
        elif program in ("fd", "fdfind"):
            self._find(run, words)
        elif program == "mount":
            for word in words:
                if word[:1] != "-":
                    self.word(run, word, whole=True)
        elif program in programs.GUARD_FOLLOWS:
            self._within(run, program, words, command)
        elif bare in programs.RUNS_LINES or bare in programs.INTERPRETERS:
            self.named.update([one.rsplit("/", 1)[-1] for one in words[:64]])

    def _words(self, run: Run, program: str, bare: str, words: list[str]) -> None:
        """Look at the words of a program that may change each file it is given."""
        if bare in programs.INTERPRETERS and "json.tool" in words[:3] and len(words) < 4:
            return
        here = run.where.here
        here_far = here is None or self.guard.near.search(here) is None
        for word in words[:256]:
            if self.danger:
                return
            if " " in word or "\n" in word:
                if program in programs.OPENS_DATABASE_FILES and _is_here(run):
                    what = self.guard.protected.mentioned(word[:MAX_TEXT])
                    self.danger = f"it may change {what}" if what else ""
                if word[:1] not in "/~":
                    continue
            if here_far and not self.guard.is_near(word):
                continue
            value = word.partition("=")[2] if word[:1] == "-" and "=" in word else word
            for one in (
                {value, *value[:4096].replace(",", ":").split(":")} if ":" in value or "," in value else (value,)
            ):
                plain = one.partition("?")[0] if value is not one else one
                plain = plain.partition("=")[2] if plain[:1].isalpha() and "=" in plain else plain
                if plain[:2] == "//" and plain[2:3] in ("/", "~"):  # of "file://"
                    plain = plain[2:]
                if plain[:1] not in ("-", "") and (plain[:2] != "//" or "@" not in plain):
                    self.word(run, plain)

    def _script(self, run: Run, words: list[str]) -> None:
        """Look at the scripts of ``sed`` and ``awk``, which may write files themselves."""
        for word in words:
            if _SCRIPT_WRITES.search(word[:MAX_TEXT]) and _is_here(run):
                what = self.guard.protected.mentioned(word[:MAX_TEXT])
                self.danger = f"it may change {what}" if what else self.danger

    def _own(self, program: str, bare: str, words: list[str]) -> str:
        """Return why a command decides or switches off through Callosum, ``""`` if it does not."""
        script = next((word for word in words if word[:1] != "-"), "") if bare in programs.RUNS_LINES else ""
        if _is_hook(program) or _is_hook(script):
            return "it speaks to Callosum as a host's hook does"
        if program == "callosum":
            return _decides(words)
        if bare in programs.RUNS_MODULES or bare in ("python", "pypy"):
            for at, word in enumerate(words[:64]):
                name = word.removeprefix("-m") if word[:2] == "-m" else word
                after_m = (word[:2] == "-m" and len(word) > 2) or (at > 0 and _MODULE.match(words[at - 1]) is not None)
                if (after_m and (name == "callosum" or name[:9] == "callosum.")) or word.endswith("/callosum"):
                    return _decides(words[at + 1 :])
                if word.endswith(_LAUNCHER):
                    return _decides(_arguments(words[at + 1 :]))
                if "/" in word and _is_hook(word):
                    return "it speaks to Callosum as a host's hook does"
                if word in ("-c", "-"):
                    break
        about = any("callosum" in one for one in words)
        if not about and not (program in _HOSTS and any("isableAllHooks" in one for one in words)):
            return ""
        said = set(words)
        if program in programs.PACKAGE_MANAGERS or bare == "pip":
            named = any(one.startswith("callosum") for one in words)
            return "it uninstalls Callosum" if named and said & lex.UNINSTALLS else ""
        if program in _HOSTS and said & lex.DISABLES:
            return "it takes Callosum out of a host"
        if program in programs.SERVICE_MANAGERS and said & lex.STOPS_THE_GATE:
            return "it stops Callosum's server"
        if program in programs.MOUNTS_FOLDERS:
            plain = [one for one in words if one[:1] != "-"][:8]
            verbs = plain[:2] if plain[:1] in (["container"], ["compose"]) else plain[:1]
            if not lex.STOPS_THE_GATE.isdisjoint(verbs) and any("callosum" in one and "/" not in one for one in plain):
                return "it stops Callosum's server"
        return ""

    def _kill(self, run: Run, bare: str, words: list[str], command: Command) -> None:
        if words[:1] and (words[0] in programs.HARMLESS_SIGNALS or words[:2] == ["-s", "0"]):
            return
        if bare == "fuser" and not any(one[:1] == "-" and "k" in one for one in words):
            return
        said = [*words, *(target for sign, target in command.redirects if sign == "<")]
        at = command.piped
        for _ in range(16):
            if at is None:
                break
            said += at.words
            at = at.piped
        text = " ".join(said)[:MAX_TEXT]
        unknown = any(one[:1] == "$" or one == "./?*" for one in words)
        if _PROCESS.search(text.translate(_BRACKETS)) or (self.sought and unknown):
            self.danger = "it ends Callosum's process"
        elif len(said) > len(words) or "$(" in text or bare != "kill":
            if self.guard.port_number.search(text):
                self.danger = "it ends Callosum's process"
            for word in _INSIDE.findall(text)[:256]:
                path = run.place(word).path if "/" in word else ""
                if path and _is_here(run) and self.guard.protected.touched(path):
                    self.danger = "it ends Callosum's process"

    def _find(self, run: Run, words: list[str]) -> None:
        """Judge ``fd pattern folder -x command`` as the ``find`` that does the same."""
        at = next((at for at, one in enumerate(words) if one in ("-x", "-X", "--exec", "--exec-batch")), 0)
        plain = [one for one in words[:at] if one[:1] != "-"]
        if at:
            name = ["-name", f"*{plain[0]}*"] if plain and plain[0].replace("_", "").isalnum() else []
            inner = words[at + 1 :] if "{}" in words[at:] else [*words[at + 1 :], "{}"]
            with run.apart():
                run.inner(["find", *(plain[1:] or ["."]), *name, "-exec", *inner, ";"], Command())

    def _within(self, run: Run, program: str, words: list[str], command: Command) -> None:
        """Follow texts that a program runs and that no rule for its tier reads."""
        texts: list[str] = []
        if program == "git":
            texts += [one.partition("!")[2] for one in words[:64] if "=!" in one or one[:1] == "!"]
            for at, one in enumerate(words[:16]):
                if words[at + 1 : at + 2] == [maps.GIT_RUNS_BEHIND.get(one, "")]:
                    texts.append(" ".join(words[at + 2 :]))
                elif one in ("-x", "--exec") and "rebase" in words[:at]:
                    texts += words[at + 1 : at + 2]
                elif one.startswith("--exec=") and "rebase" in words[:at]:
                    texts.append(one[7:])
        elif program in programs.EDITORS:
            texts += [one.lstrip(":+!") for one in words if one.lstrip(":+")[:1] == "!"]
        elif program == "expect":
            texts += [word.replace("spawn ", " ").replace("exec ", " ") for word in words]
        elif program in programs.RUNS_WORDS:
            texts += [one for one in words if one[:1] != "-"]
        elif program == "crontab":
            text = command.stdin or (" ".join(command.piped.words[1:]) if command.piped is not None else "")
            texts += [_SCHEDULE.sub("", line) for line in text[:MAX_TEXT].split("\n")[:64]]
        elif program == "make" and command.stdin is not None:
            texts.append(command.stdin.replace("\t", " "))
        for one in texts:
            if one.strip():
                run.aside(one[:MAX_TEXT])

    def silent(self, run: Run, program: str, argv: list[str]) -> None:
        """Follow the texts that ``trap`` and ``alias`` keep for later, and note a search for Callosum's processes."""
        if program == "trap":
            texts = argv[1:2]
        elif program != "alias":
            said = " ".join(argv[1:])[:MAX_TEXT].translate(_BRACKETS)
            self.sought = (
                self.sought or _PROCESS.search(said) is not None or self.guard.port_number.search(said) is not None
            )
            return
        else:
            texts = [one.partition("=")[2] for one in argv[1:17]]
        for one in texts:
            if one.strip() and one != "-":
                run.aside(one[:MAX_TEXT])

    # --- Texts ---

    def document(self, words: list[str], command: Command) -> None:
        """Remember a text of the line that a shell or an interpreter in the same line may run."""
        text = command.stdin
        first = words[0].rsplit("/", 1)[-1] if words else ""
        written = [target for sign, target in command.redirects if ">" in sign]
        if text is None and first in ("echo", "printf") and (written or command.end in ("|", "|&")):
            text = " ".join(words[1:]).replace("\\n", "\n")
        if not text or len(self.documents) > MAX_DOCUMENTS or first in _SPEAKERS or first == "git":
            return
        piped = command.end in ("|", "|&")
        if first in programs.RUNS_LINES or (first.rstrip("0123456789.") or first) in programs.INTERPRETERS:
            return  # what it reads is judged where it stands
        if piped or first not in programs.READERS or first in ("cat", "tee", "read") or written:
            if first == "tee":
                written += [one for one in words[1:] if one[:1] not in "-$"]
            if piped and first in ("echo", "printf") and not written:
                return  # the shell at the end of the pipe reads it by itself
            self.documents.append((text, tuple([one.rsplit("/", 1)[-1] for one in written])))

    def finish(self, run: Run, line: str) -> None:
        """Judge the remembered documents that something in the line may run; of too many, search the line as text."""
        if self.danger or self.inside:
            return
        if self.programs and any(one in ("$@", "$*") or one[-4:] in ("[@]}", "[*]}") for one in self.programs):
            self.cut(line)  # the words of a list are run: the line is searched for them
        if not self.documents:
            return
        self.inside = True
        commands = {one.rsplit("/", 1)[-1] for one in self.programs}
        unknown = any("$" in one or " " in one for one in commands)
        shells = unknown or not commands.isdisjoint(programs.RUNS_LINES)
        code = any((one.rstrip("0123456789.") or one) in programs.INTERPRETERS for one in commands)
        left = MAX_TEXT
        for text, written in self.documents[:MAX_DOCUMENTS]:
            runs = not commands.isdisjoint(written) or not self.named.isdisjoint(written) if written else shells or code
            if not (runs or self.odd):
                continue
            left -= len(text)
            if left < 0:
                break
            run.aside(text)
            if code:
                self.code(run, text)
        if left < 0 or len(self.documents) > MAX_DOCUMENTS:
            self.cut(line)

    def code(self, run: Run, text: str) -> None:
        """Look at program text: its use of Callosum's own modules, the files that it names, the port that it calls."""
        if self.danger:
            return
        text = text[:MAX_TEXT]
        for found in islice(_MOVED.findall(text), 64):
            self.word(run, next((one for one in found if one), ""), whole=True)
        if self.danger or self.guard.near.search(text) is None:
            return
        if _CONNECTS.search(text) and self.guard.talks(text):
            self.danger = TALKS
            return
        strings = [next((one for one in found if one), "") for found in _STRINGS.findall(text)[:512]]
        if ("callosum" in text or "Gate(" in text) and _OF_API.search(text) and _API.search(text):
            self.danger = "it decides or switches off through Callosum's own modules"
            return
        backticks = any(one.rsplit("/", 1)[-1][:4] in ("ruby", "perl", "php") for one in run.command[:4])
        if backticks or _STARTS.search(text):
            for name, *said in islice(_ARGUMENT.findall(text), 64):
                one = said[0] or said[1] or said[2]
                if "callosum" in one and name.lower() not in programs.CODE_PRINTS and (name or backticks):
                    run.aside(one)
                    if self.danger:
                        return
            for at, one in enumerate(strings[:-1]):
                ours = one.rsplit("/", 1)[-1] == "callosum" or _is_hook(one)
                if ours and strings[at + 1] not in ("callosum", *programs.GATE_SHOWS):
                    self.danger = _decides(strings[at + 1 : at + 3])
                    return
        if _is_here(run) and _WRITES.search(text):
            joined = "/".join(strings).replace("//", "/") if strings else ""
            what = self.guard.protected.mentioned(text) or self.guard.protected.mentioned(joined)
            if what:
                self.danger = f"it may change {what}"

    def cut(self, text: str) -> None:
        """Search a line that is too long to be read, as text: for Callosum as a command, and for protected paths."""
        if self.danger or not self.guard.hinted(text):
            return
        plain = text.replace('"', "").replace("'", "").replace("\\", "")
        at = plain.find("callosum")
        for _ in range(MAX_SEEN):
            if at < 0:
                break
            match = _WORD_SEARCH.match(plain[max(0, at - 1) : at + 64]) if at else _WORD_SEARCH.match(plain[:64])
            if match and match.group(1) not in programs.GATE_SHOWS:
                self.danger = "it is too long to be read and names a command of Callosum's"
                return
            at = plain.find("callosum", at + 8)
        what = self.guard.protected.mentioned(plain.replace("$HOME", "~").replace("${HOME}", "~"))
        if what:
            self.danger = f"it is too long to be read and names {what}"


def _arguments(words: list[str]) -> list[str]:
    """Return the arguments of the command behind ``callosum/launch.py`` and that file's own options."""
    at = 0
    while words[at : at + 1] and words[at] in ("--import", "--in", "--run"):
        at += 2
    return words[at:]


def _decides(words: list[str]) -> str:
    """Return why ``callosum`` with these words is refused, ``""`` if it only shows something."""
    if not programs.HELP_OPTIONS.isdisjoint(words):
        return ""
    if "--rotate" in words:
        return "it rotates the journal"
    skip = False
    for at, word in enumerate(words):
        if skip:
            skip = False
        elif word in programs.GATE_TAKES:
            skip = True
        elif word[:1] != "-":
            if word in programs.GATE_SHOWS or (
                words[at + 1 : at + 2] and words[at + 1] in groups.GATE_SHOWS_WITHIN.get(word, ())
            ):
                return ""
            named = f'"callosum {word}"' if word in programs.GATE_DECIDES else "a command of Callosum's"
            return f"it decides or switches off through Callosum itself ({named})"
    return ""


def _is_here(run: Run) -> bool:
    machine = run.where.machine
    return not machine or machine in ("host:localhost", "host:127.0.0.1", "host:::1", "host:[::1]")
