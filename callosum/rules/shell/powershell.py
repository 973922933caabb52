"""PowerShell and ``cmd``: cut by their own rules, their commands judged as those of a shell are.

``Remove-Item -Recurse x`` is ``rm -r x``; a cmdlet that has no like is judged by its verb.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from callosum.model import Mode
from callosum.rules import keys
from callosum.rules import lexicon as lex
from callosum.rules.shell import programs, verbs, wrap
from callosum.rules.shell.parser import Command
from callosum.rules.shell.programs import maps

if TYPE_CHECKING:
    from callosum.rules.shell.run import Run


MAX_TEXT: Final = 32_768
"""How many characters of PowerShell are read."""
MAX_COMMANDS: Final = 256
_SEPARATOR: Final = 3
_BLANK: Final = 4
_TOKEN: Final = re.compile(
    r"'((?:[^']|'')*+)'"  # 1
    r"|\"((?:[^\"`]|`[\s\S]|\"\")*+)\""  # 2
    r"|(?<!\S)#[^\n]*"
    r"|([;\n|{}()&]+)"  # 3 what separates commands
    r"|([^\S\n]+)"  # 4
    r"|`([\s\S])"  # 5
    r"|([^\s'\"`;|{}()&]+)"  # 6
    r"|([\s\S])"  # 7 a quote without its end
)
_ASSIGNS: Final = re.compile(r"\$[\w:]+[-+*/]?=(.*)", re.DOTALL)
_OPERAND: Final = frozenset("$[@-.+!*0123456789,=<>%?'\"")
_FETCHES: Final = re.compile(
    r"downloadstring|downloadfile|downloaddata|invoke-webrequest|invoke-restmethod|\b(?:iwr|irm)\b", re.IGNORECASE
)
_EVALUATES: Final = re.compile(r"\biex\b|invoke-expression|scriptblock\]::create|assembly\]::load", re.IGNORECASE)
_DECODES: Final = re.compile(r"frombase64string|gzipstream|deflatestream", re.IGNORECASE)
_METHOD: Final = re.compile(
    r"\]::(delete\w{0,16})\s{0,4}\(\s{0,4}(?:[\"']([^\"'\n]{1,1024})[\"'])?|\.(delete|kill|terminate|drop)\w{0,16}\s{0,4}\(",
    re.IGNORECASE,
)


def judge(run: Run, text: str) -> None:
    """Note what a text of PowerShell does."""
    if len(text) > MAX_TEXT:
        run.note(3, "runs more code than is read")
        text = text[:MAX_TEXT]
    if run.watch is not None:
        run.watch.code(run, text)
    if _EVALUATES.search(text):
        if _FETCHES.search(text):
            run.note(4, "runs what it fetches from the net, unseen")
        if _DECODES.search(text):
            run.note(4, "runs what is hidden in another encoding")
    for match in _METHOD.finditer(text):
        if match.group(1):
            run.removes(match.group(2) or "$x", deep=match.group(1).lower() != "delete" or "directory]" in text.lower())
        else:
            run.note(2 if match.group(3).lower() == "kill" else 3, f"{match.group(3)}() may end something that lasts")
    before: list[str] = []
    for one in _commands(text):
        run.command = one.words
        _command(run, one, before if one.piped else [])
        before = one.words
    if run.tier == 0:
        run.note(0, "only looks")


class _Part(NamedTuple):
    """A command of a text. ``piped``: it reads a pipe; ``called``: behind ``&``; ``quoted``: it begins with a text."""

    words: list[str]
    piped: bool
    called: bool
    quoted: bool


def _commands(text: str) -> list[_Part]:
    """Return the commands of a text, those in its blocks and brackets as well."""
    found: list[_Part] = []
    words: list[str] = []
    parts: list[str] = []
    piped = called = quoted = False
    for match in _TOKEN.finditer(text):
        kind = match.lastindex
        if kind in (None, _SEPARATOR, _BLANK):
            if parts:
                words.append("".join(parts))
                parts = []
            if kind == _SEPARATOR:
                if words and len(found) < MAX_COMMANDS:
                    found.append(_Part(words, piped, called, quoted))
                sign = match.group(_SEPARATOR)
                piped = "|" in sign and "||" not in sign
                called = sign.endswith("&") and "&&" not in sign
                words, quoted = [], False
        else:
            said = match.group(kind or 0)
            if kind in (1, 2):
                said = said.replace("''", "'") if kind == 1 else said.replace('""', '"')
                quoted = quoted or not (words or parts)
            parts.append(said)
    if parts:
        words.append("".join(parts))
    if words and len(found) < MAX_COMMANDS:
        found.append(_Part(words, piped, called, quoted))
    return found


def _command(run: Run, part: _Part, before: list[str]) -> None:
    words, called = _redirected(run, part.words), part.called
    while words and words[0].lower() in programs.POWERSHELL_KEYWORDS:
        words = words[1:]
    if words and words[0][0:1] == "$" and words[1:2] in (["="], ["+="]):
        words = words[2:]
    elif words and (match := _ASSIGNS.fullmatch(words[0])):
        words = [match.group(1), *words[1:]] if match.group(1) else words[1:]
    if words[:1] == ["."]:
        words, called = words[1:], True
    if not words or not words[0]:
        return
    if (part.quoted and not called) or (
        words[0][0] in _OPERAND
        and words[0].lower() not in maps.POWERSHELL_ALIASES
        and not words[0].startswith(("./", ".\\"))
    ):
        unread = called and words[0][0] in "$["
        run.note(3 if unread else 0, "runs what the command does not tell" if unread else "an expression")
        return
    first = words[0].lower().removesuffix(".exe")
    name = maps.POWERSHELL_ALIASES.get(first, first)
    given = _Given(words[1:])
    if "whatif" in given.flags:
        run.note(0, "only tells what it would do")
    elif name in maps.CMDLETS_LIKE:
        run.inner(maps.CMDLETS_LIKE[name].split(), Command())
    elif name in programs.CMDLETS_OF_DISKS:
        run.note(4, "works on a disk itself")
    elif name in _CMDLETS:
        _CMDLETS[name](run, given, before)
    elif (
        "-" in name
        and "/" not in name
        and "\\" not in name
        and name.split("-", 1)[0] in lex.POWERSHELL_LOOKS | lex.POWERSHELL_WRITES
    ):
        _by_verb(run, name, given)
    else:
        run.inner([words[0].replace("\\", "/"), *words[1:]], Command())


def _redirected(run: Run, words: list[str]) -> list[str]:
    """Note the files that a command's output goes to; return its other words."""
    if not any(">" in one for one in words):
        return words
    kept: list[str] = []
    target = False
    for word in words:
        match = _REDIRECTS.fullmatch(word)
        if target or (match and match.group(2)):
            name = (match.group(2) if match and not target else word).replace("\\", "/")
            if name.lower() != "$null":
                run.makes(name, "writes a file")
            target = False
        elif match:
            target = True
        else:
            kept.append(word)
    return kept


_REDIRECTS: Final = re.compile(r"[*\d]?(>>?)(.*)", re.DOTALL)


class _Given:
    """What a cmdlet is given: ``args`` without names, ``values`` and ``flags`` by their lower-case names."""

    __slots__ = ("args", "flags", "values")

    def __init__(self, words: list[str]) -> None:
        self.args: list[str] = []
        self.flags: set[str] = set()
        self.values: dict[str, str] = {}
        pending = ""
        for word in words[:256]:
            if pending:
                self.values[pending] = word.replace("\\", "/")
                pending = ""
            elif word[:1] == "-" and word[1:2].isalpha():
                name, colon, value = word[1:].lower().partition(":")
                known = (
                    name
                    if name in programs.POWERSHELL_PARAMETERS
                    else next(
                        (one for one in programs.POWERSHELL_PARAMETERS if len(name) > 2 and one.startswith(name)), ""
                    )
                )
                if known and colon:
                    self.values[known] = value
                elif known:
                    pending = known
                elif value != "$false":
                    self.flags.add(name)
            else:
                self.args += [one for one in word.replace("\\", "/").split(",") if one]

    def has(self, name: str) -> bool:
        """Return True if a switch is given, in full or by its beginning."""
        return any(name.startswith(one) for one in self.flags)

    def paths(self) -> list[str]:
        """Return the files or folders that are named."""
        named = self.values.get("path") or self.values.get("literalpath") or ""
        return [*[one for one in named.split(",") if one], *self.args]

    def value(self, *names: str) -> str:
        """Return the value of the first of some options that has one."""
        return next((self.values[one] for one in names if one in self.values), "")


def _found(before: list[str]) -> list[str]:
    """Return words for what comes through the pipe: where it was looked for, as far as that is told."""
    if before and maps.POWERSHELL_ALIASES.get(before[0].lower(), before[0].lower()) in ("get-childitem", "get-item"):
        given = _Given(before[1:])
        paths = given.paths() or ["."]
        if given.values.get("filter") or given.values.get("include"):
            return [f"{one.rstrip('/')}/?*" for one in paths]
        return [one if any(sign in one for sign in "*?[") else f"{one.rstrip('/')}/*" for one in paths]
    return ["$piped"]


def _removes(run: Run, given: _Given, before: list[str]) -> None:
    deep = given.has("recurse") or any(one.lower().startswith("-r") for one in before[1:])
    for one in given.paths() or _found(before):
        run.removes(one, deep=deep)


def _makes(run: Run, given: _Given, before: list[str]) -> None:
    paths = [given.value("filepath", "outfile")] if given.value("filepath", "outfile") else given.paths()[:1]
    for one in paths or _found(before):
        run.makes(one, "writes a file")


def _adds(run: Run, given: _Given, before: list[str]) -> None:
    for one in given.paths()[:1] or _found(before):
        run.makes(one, "appends to a file", Mode.APPEND)


def _news(run: Run, given: _Given, _before: list[str]) -> None:
    name = given.value("name")
    for one in given.paths()[:16] or [name]:
        run.makes(f"{one.rstrip('/')}/{name}" if name and one != name else one, "makes files", Mode.APPEND, empty=True)


def _transfers(program: str, run: Run, given: _Given, before: list[str]) -> None:
    """Judge ``Copy-Item``, ``Move-Item`` and ``Rename-Item`` as the program of a shell that does the same."""
    paths = given.paths() or _found(before)
    target = given.value("destination", "newname") or (paths.pop() if len(paths) > 1 else "")
    deep = ["-r"] if program == "cp" and given.has("recurse") else []
    run.inner([program, *deep, *paths, target or "."], Command())


def _reads(run: Run, given: _Given, _before: list[str]) -> None:
    run.note(0, "only looks")
    for one in given.paths()[:16]:
        run.reads(one)


def _goes(run: Run, given: _Given, _before: list[str]) -> None:
    run.note(0, "goes to a folder")
    for one in given.paths()[:1]:
        run.goes(one)


def _evaluates(run: Run, given: _Given, before: list[str]) -> None:
    text = " ".join(given.args) or given.value("value")
    if before or not text or text[:1] == "$":
        run.note(3, "runs what another command says" if before else "runs what the command does not tell")
    else:
        run.depth += 1
        if run.depth < _DEEPEST:
            judge(run, text)
        run.depth -= 1


_DEEPEST: Final = 6


def _requests(run: Run, given: _Given, _before: list[str]) -> None:
    argv = ["curl", "-X", (given.value("method") or ("POST" if given.value("body") else "GET")).upper()]
    if given.value("body"):
        argv += ["-d", given.value("body")]
    if given.value("outfile"):
        argv += ["-o", given.value("outfile")]
    run.inner([*argv, *([given.value("uri")] if given.value("uri") else given.args[:1])], Command())


def _starts(run: Run, given: _Given, _before: list[str]) -> None:
    program = given.value("filepath") or "".join(given.args[:1])
    more = given.value("argumentlist").split(",") if given.value("argumentlist") else given.args[1:]
    run.note(1, "starts a program")
    if program:
        run.inner([program, *" ".join(more).split()], Command())


def _stops(run: Run, given: _Given, before: list[str]) -> None:
    names = [one for one in (given.value("name", "processname"), *given.args) if one and not one.isdecimal()]
    if names:
        run.inner(["pkill", *names], Command())
    elif before:
        narrow = len(before) > 1
        run.note(2 if narrow else 4, "ends processes by name, whoever started them" if narrow else "ends every process")
    else:
        run.note(1, "ends a process")


def _services(run: Run, given: _Given, _before: list[str]) -> None:
    run.note(run.policy.service, "stops or reconfigures a service of the machine")
    for one in [given.value("name"), *given.args][:9]:
        run.keyed(run.policy.service, "service", one)


def _policy(run: Run, given: _Given, _before: list[str]) -> None:
    here = given.value("scope").lower() in ("process", "currentuser")
    run.note(1 if here else run.policy.system, "changes which scripts may run")


def _properties(run: Run, given: _Given, _before: list[str]) -> None:
    machine = any(one.lower().startswith(("hklm:", "registry::hkey_local_machine")) for one in given.paths())
    run.note(run.policy.system if machine else 2, "changes the registry" + (" of the machine" if machine else ""))


def _mails(run: Run, given: _Given, _before: list[str]) -> None:
    run.note(3, "sends mail")
    run.repeats = True
    for one in keys.addresses(" ".join([given.value("to"), given.value("cc"), given.value("bcc"), *given.args[:1]])):
        run.key(3, f"email:{keys.clean(one)}")


_copies, _moves = partial(_transfers, "cp"), partial(_transfers, "mv")
_CMDLETS: Final = {cmdlet: globals()[f"_{name}"] for cmdlet, name in maps.CMDLETS.items()}


def _by_verb(run: Run, name: str, given: _Given) -> None:
    """Judge a cmdlet by the verb that its name begins with."""
    said = verbs.tokens(name)
    if said[0] in lex.POWERSHELL_LOOKS:
        run.note(0, f'"{said[0]}" only looks')
        return
    tier, what = verbs.tier_of("", said[0], set(said), sorted(given.flags), deep=False)
    run.note(tier, what)


def pwsh(run: Run, argv: list[str], command: Command) -> None:
    """``pwsh``, ``powershell``: a text after ``-Command``, a script, or what it reads."""
    at = 1
    while at < len(argv):
        word = argv[at].lower()
        name = word.lstrip("-/")
        if word[:1] not in "-/" or word == "-":
            break
        if name in ("version", "v", "help", "h", "?"):
            run.note(0, "only tells of itself")
            return
        if name and ("command".startswith(name) or name == "commandwithargs"):
            at += 1
            break
        if name and ("encodedcommand".startswith(name) or name == "ec") and name != "":
            run.note(4, "runs what is hidden in another encoding")
            judge(run, _decoded("".join(argv[at + 1 : at + 2])))
            return
        if name and "file".startswith(name):
            run.note(1, "runs a script")
            run.starts("".join(argv[at + 1 : at + 2]))
            return
        at += 2 if name in programs.POWERSHELL_TAKES else 1
    else:
        wrap.runs_source(run, command, lines=False, reads=judge)
        return
    text = " ".join(argv[at:])
    if text == "-":
        wrap.runs_source(run, command, lines=False, reads=judge)
    elif wrap.hidden(text):
        run.note(*wrap.unread(text))
    elif argv[at].lower().endswith(".ps1"):
        run.note(1, "runs a script")
        run.starts(argv[at])
    else:
        judge(run, text)


def _decoded(text: str) -> str:
    try:
        return b64decode(text[:MAX_TEXT]).decode("utf-16-le", "replace")
    except (binascii.Error, ValueError):
        return ""


def cmd(run: Run, argv: list[str], _command: Command) -> None:
    """``cmd /c``: its commands as a shell has them, with their own names."""
    at = next((place for place, one in enumerate(argv) if one.lower() in ("/c", "/k", "//c", "//k")), 0)
    if not at:
        run.note(1, "opens a shell")
        return
    before = run.variables
    run.variables = {**before, **{f"{name}()": (like,) for name, like in maps.CMD_ALIASES.items()}}
    run.within(re.sub(r"%(\w{1,64})%", r"${\1}", " ".join(argv[at + 1 :])[:MAX_TEXT]).replace("\\", "/"))
    run.variables = before
