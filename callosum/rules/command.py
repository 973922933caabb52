"""What a shell command shows without a full parse: its words, its mail's addressees, what it removes.

All functions take text of any length and read a bounded part of it.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from callosum.rules import keys
from callosum.rules import lexicon as lex
from callosum.rules.lexicon import lists

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

MAX_COMMAND: Final = 65_536
"""How many characters of a command are cut into words."""

_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")


def of(params: Mapping[str, Any]) -> str:
    """Return the command line among a call's params, ``""`` if there is none.

    A list of words is joined with spaces.
    """
    for name in lists.COMMAND_PARAMS:
        value = params.get(name)
        if value is None:
            continue
        if isinstance(value, str):
            return value
        if isinstance(value, (list, tuple)):
            return " ".join(item for item in islice(value, 4096) if isinstance(item, str))
    return ""


def lines(names: Iterable[Any]) -> tuple[str, ...]:
    """Return those of a call's params that may hold its command line, however a server spells them."""
    plain = {
        name: name.lower().replace("_", "").replace("-", "") for name in names if type(name) is str and len(name) < 32
    }
    found = [name for name, spelled in plain.items() if spelled in lex.COMMAND_LINE_WORDS]
    return (*found, *[name for name, spelled in plain.items() if found and spelled in lex.COMMAND_SIDE_PARAMS])


def readings(params: Mapping[str, Any], names: tuple[str, ...]) -> list[Mapping[str, Any]]:
    """Return a call's params once for each command line and folder among them, as its tool may take either.

    ``names`` are those that ``lines`` gave. None are returned where there is one line, one folder and nothing odd.
    """
    said: dict[str, Any] = {}
    for name in names:
        value = params[name]
        if isinstance(value, (list, tuple)) and name[-1:] in "sS":  # a line each
            value = "\n".join(item for item in islice(value, 4096) if isinstance(item, str))
        if isinstance(value, (str, list, tuple)) and value:
            said.setdefault(repr(value), (name if name in lists.COMMAND_PARAMS else "command", value))
    folders = {
        folder: name
        for name in lists.COMMAND_FOLDER_PARAMS
        if type(folder := params.get(name)) is str and folder.strip()
    }
    if len(said) * max(1, len(folders)) < 2 and set(names) <= set(lists.COMMAND_PARAMS):
        return []
    plain = {
        name: value for name, value in params.items() if name not in names and name not in lists.COMMAND_FOLDER_PARAMS
    }
    return [
        {**plain, name: value, **({folder: where} if where else {})}
        for name, value in said.values()
        for where, folder in (folders or {"": ""}).items()
    ]


def simple_commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each simple command of a line, in order, without assignments and prefixes such as ``sudo``."""
    from callosum.rules.shell.parser import Command, parse  # noqa: PLC0415 - most processes never see a command line

    for step in parse(text[:MAX_COMMAND]).steps:
        if isinstance(step, Command):
            at, words = 0, step.words
            while at < len(words) and (words[at] in lex.MAIL_PREFIXES or _ASSIGNMENT.match(words[at])):
                duration = words[at] == "timeout"
                at += 1
                while at < len(words) and words[at][:1] == "-":
                    at += 1  # the prefix's own options
                if duration:
                    at += 1
            yield words[at:]


_MAIL_OPTION: Final = re.compile(
    r"--(?:mail-rcpt|to|cc|bcc|rcpt|recipient)[=\s]+(\"[^\"\n]*\"|'[^'\n]*'|[^\s\"']+)", re.IGNORECASE
)
_MAIL_HEADER: Final = re.compile(r"(?:^|[\s\"'({;]|\\n|\\r)(?:to|cc|bcc):", re.IGNORECASE)
_HEADER_END: Final = re.compile(
    r"\\[nr]|[\s\"']-{1,2}[A-Za-z]|\b(?:from|subject|date|reply-to|in-reply-to|to|cc|bcc|content-type)\s*:",
    re.IGNORECASE,
)
_MAILTO: Final = re.compile(r"mailto:([^\s\"'<>]{1,2048})", re.IGNORECASE)


def recipients(text: str) -> list[str]:
    """Return every e-mail address a command sends to, each once; the sender's is none of them.

    Read are ``--mail-rcpt`` and its like, ``To:``/``Cc:``/``Bcc:`` headers, ``mailto:`` and the
    arguments of ``mail``, ``mutt``, ``sendmail``.
    """
    text = text[:MAX_COMMAND]
    if "@" not in text:
        return []
    found = spoken(text)
    if any(item in text for item in ("mail", "mutt", "smtp")):
        for argv in simple_commands(text):
            found += mailer_arguments(argv)
    return list(dict.fromkeys(found))


def spoken(text: str) -> list[str]:
    """Return the addresses after options and headers such as ``--mail-rcpt`` and ``To:``, and in ``mailto:``."""
    text = text[:MAX_COMMAND]
    found: list[str] = []
    if "@" not in text:
        return found
    for match in islice(_MAIL_OPTION.finditer(text), 256):
        found += keys.addresses(match.group(1).strip("'\""))
    for match in islice(_MAIL_HEADER.finditer(text), 256):
        tail = text[match.end() : match.end() + 4096].partition("\n")[0]
        end = _HEADER_END.search(tail)
        found += keys.addresses(tail[: end.start()] if end else tail)
    for match in islice(_MAILTO.finditer(text), 256):
        found += keys.addresses(
            match.group(1).replace("%40", "@").replace("?", " ").replace("&", " ").replace("=", " ")
        )
    return found


def mailer_arguments(argv: list[str]) -> list[str]:
    """Return the addresses among the arguments of ``mail``, ``mutt``, ``sendmail``; none of other programs."""
    if not argv or argv[0].rsplit("/", 1)[-1] not in lex.MAIL_PROGRAMS:
        return []
    found: list[str] = []
    skip = False
    for word in argv[1:]:
        if skip:
            skip = False
        elif word in lex.MAIL_OPTIONS_WITHOUT_ADDRESS:
            skip = True
        elif word[:1] != "-" and "@" in word:
            found += keys.addresses(word)
    return found


_IN_REPLY: Final = re.compile(r"in-reply-to:\s*(?:\\?[\"'])?<?([^\s<>\"'\\]{1,512})", re.IGNORECASE)


def replied(text: str) -> list[str]:
    """Return the ids after ``In-Reply-To:``."""
    return [match.group(1) for match in islice(_IN_REPLY.finditer(text[:MAX_COMMAND]), 16)]


def threads(text: str) -> list[str]:
    """Return the ids of the mails that a command replies to."""
    text = text[:MAX_COMMAND]
    found = replied(text)
    if "himalaya" in text and "reply" in text:
        for argv in simple_commands(text):
            if argv and argv[0].rsplit("/", 1)[-1] == "himalaya" and "reply" in argv:
                found += [word for word in argv[argv.index("reply") + 1 :] if word[:1] != "-"][:1]
    return list(dict.fromkeys(found))


_RM: Final = re.compile(r"\b(?:rm|rmdir|unlink)\s")


def removed(text: str) -> list[str]:
    """Return the paths that ``rm`` and ``rmdir`` name; a directory's ends in ``/``.

    A path with a pattern stands for the directory above the pattern. ``cd`` in the same line is
    followed.
    """
    if not _RM.search(text[:MAX_COMMAND]):
        return []
    found: list[str] = []
    where = ""
    for argv in simple_commands(text):
        program = argv[0].rsplit("/", 1)[-1] if argv else ""
        if program == "cd" and len(argv) > 1:
            where = keys.path(argv[1], where or None)
        elif program in ("rm", "rmdir", "unlink"):
            flags = [word for word in argv[1:] if word[:1] == "-" and word != "-"]
            deep = program == "rmdir" or "--recursive" in flags
            deep = deep or any(flag[1] != "-" and ("r" in flag or "R" in flag) for flag in flags if len(flag) > 1)
            found += [_target(word, where, deep=deep) for word in argv[1:] if word[:1] not in ("-", "")]
    return found[:256]


def _target(word: str, where: str, *, deep: bool) -> str:
    cut = re.split(r"[*?\[{$`]", word, maxsplit=1)
    if len(cut) > 1:
        word, deep = cut[0].rpartition("/")[0] + "/" if "/" in cut[0] else "./", True
    if where and word[:1] not in ("/", "~"):
        word = where.rstrip("/") + "/" + word
    return word.rstrip("/") + "/" if deep else word


_API_REPO: Final = re.compile(r"\brepos/([\w.-]+/[\w.-]+)")


def repositories(text: str) -> list[str]:
    """Return the hosted repositories (``owner/name``) that a ``gh`` or ``glab`` command names."""
    text = text[:MAX_COMMAND]
    found = [match.group(1).lower() for match in islice(_API_REPO.finditer(text), 16)]
    for argv in simple_commands(text):
        if argv and argv[0].rsplit("/", 1)[-1] in ("gh", "glab") and argv[1:2] == ["repo"]:
            found += [word.lower() for word in argv[3:] if word[:1] != "-"][:1]
    return list(dict.fromkeys(found))


_PATCHED: Final = re.compile(
    r"\n(?:\*\*\* (?:(?:Add|Update|Delete) File|Move to): ([^\n]{1,4096})(?![^\n])"
    r"|(?:\+\+\+|---) (?:[ab]/)?([^\t\n]{1,4096}))"
)
_MAX_PATCH: Final = 4_194_304
_BLOCK: Final = 262_144
"""Characters that are searched at a time, about 1 ms: other threads can run in between."""


def _patch_lines(text: str) -> Iterator[re.Match[str]]:
    """Yield the matches of ``_PATCHED``, one for each line of a patch that names a file."""
    text = "\n" + text[:_MAX_PATCH]  # the search for a newline is ten times as fast as one for the start of a line
    at = 0
    while at >= 0:
        end = text.find("\n", at + _BLOCK)
        yield from _PATCHED.finditer(text, at, end if end >= 0 else len(text))
        at = end


def patched(params: Mapping[str, Any]) -> list[str]:
    """Return the files that a patch in ``input``, ``patch`` or ``diff`` touches (at most 256).

    Both the ``*** Update File:`` form and unified diffs are read, the first 4 MB of them.
    """
    for name in ("input", "patch", "diff", "patchText", "command"):
        value = params.get(name)
        if isinstance(value, (list, tuple)):
            value = "\n".join(item for item in islice(value, 64) if isinstance(item, str))
        if isinstance(value, str) and value:
            marked = "*** " in value
            found: dict[str, None] = {}
            for match in islice(_patch_lines(value), 4096):
                file = (match.group(1) or ("" if marked else match.group(2)) or "").strip()
                if file and file != "/dev/null":
                    found[file] = None
                    if len(found) >= 256:
                        break
            return list(found)
    return []
