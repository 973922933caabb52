"""What leaves the machine that should not: secrets, and a shell for whoever is at the other end.

A command that speaks to the net is looked at together with what it is fed: the files its options name, the
commands before it in its pipe, the substitutions in what it sends. A secret in a header is left alone: that is
how a session says who it is.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from callosum.rules.shell import places, programs
from callosum.rules.shell.words import assignment

if TYPE_CHECKING:
    from collections.abc import Iterable

    from callosum.rules.shell.parser import Command
    from callosum.rules.shell.run import Run

SENDS: Final = "sends secrets away"
MAX_WORD: Final = 4096
"""How far a word is read for what it sends, in characters."""
_OPEN_TO_ALL: Final = re.compile(r"\.pub$|/known_hosts(?:\.old)?$")
_SETTINGS: Final = re.compile(r"(?:^|/)\.env(?:\.(?!example$|sample$|template$|dist$|test$)[\w-]+)?$")
_SYSTEM: Final = re.compile(r"/etc/(?:shadow|gshadow|sudoers)-?$|/etc/ssh/ssh_host_\w+_key$")
_TELLERS: Final = re.compile(
    r"(?:gh|glab) auth token|gcloud (?:\S+ )?auth (?:\S+ )*print-(?:access|identity)-token"
    r"|aws configure export-credentials|aws secretsmanager get-secret-value|vault (?:kv get|read)\b"
    r"|aws ssm get-parameter\S* .*--with-decryption"
    r"|az (?:account get-access-token|keyvault secret show)|op (?:read|item get)\b|pass show\b|bw get\b"
    r"|security find-(?:generic|internet)-password|secret-tool lookup|git credential fill|doppler secrets\b"
    r"|heroku config\b|kubectl (?:.* )?get secrets?\b|gpg2? .*--export-secret-(?:sub)?keys"
    r"|sops (?:-d|--decrypt|decrypt)\b|ansible-vault (?:view|decrypt)\b"
)
"""Commands whose output is a secret."""
_SUBSTITUTION: Final = re.compile(r"\$\(([^()]{1,512})\)|`([^`]{1,512})`")
_HERE: Final = re.compile(
    r"(?:[a-z][a-z0-9+.-]{0,15}://)?(?:[^/@]{0,256}@)?(?:localhost|127\.\d|0\.0\.0\.0|\[::1\])", re.IGNORECASE
)
_NET: Final = re.compile(r"/dev/(?:tcp|udp)/")


def is_here(address: str) -> bool:
    """Return True if an address is of this machine itself."""
    return _HERE.match(address) is not None


def secret(run: Run, word: str, *, settings: bool = True) -> bool:
    """Return True if a word names a file of secrets; ``settings``: those that programs read at their start as well."""
    if not word or len(word) > MAX_WORD or word[0] == "-":
        return False
    found = run.place(word)
    if _OPEN_TO_ALL.search(found.path):
        return False
    return (
        found.kind == places.KEPT_KEYS
        or _SYSTEM.search(found.path) is not None
        or (settings and _SETTINGS.search(found.path) is not None)
    )


def within(run: Run, text: str) -> bool:
    """Return True if a word holds the output of a command that shows secrets."""
    for match in _SUBSTITUTION.finditer(text[:MAX_WORD]):
        if _shows(run, (match.group(1) or match.group(2)).replace("<", " ").split()):
            return True
    return False


def fed(run: Run, command: Command, *, kept: bool = False) -> bool:
    """Return True if the pipe into a command, or the file it reads, holds secrets.

    With ``kept`` only files of keys count: a token or a ``.env`` may be meant for one's own other machine.
    """
    at: Command | None = command
    for _ in range(17):
        if at is None:
            return False
        if any(sign == "<" and secret(run, target, settings=not kept) for sign, target in at.redirects):
            return True
        if at is not command and _shows(run, at.words, kept=kept):
            return True
        at = at.piped
    return False


def _shows(run: Run, words: list[str], *, kept: bool = False) -> bool:
    words = [one for one in words[:256] if assignment(one) is None]
    if not words:
        return False
    program = words[0].rsplit("/", 1)[-1]
    if program in ("sudo", "command") and len(words) > 1:
        words = words[1:]
        program = words[0].rsplit("/", 1)[-1]
    if not kept and program in programs.DUMPS_ENVIRONMENT and all(one[:1] == "-" for one in words[1:]):
        return True
    if not kept and _TELLERS.match(" ".join((program, *words[1:]))[:MAX_WORD]):
        return True
    return program not in ("echo", "printf") and any(secret(run, one, settings=not kept) for one in words[1:])


def sent(run: Run, address: str, words: Iterable[str], command: Command, *, reads: bool) -> None:
    """Note a command that sends ``words`` to an address, and with ``reads`` what it is fed as well.

    A word that begins with ``@``, or holds ``=@``, names a file.
    """
    if is_here(address):
        return
    for word in words:
        name = word[word.find("@") + 1 :] if "@" in word[:256] else ""
        if within(run, word) or (name and (word[0] == "@" or f"=@{name}" in word) and secret(run, name.split(";")[0])):
            run.note(4, SENDS)
            return
    if within(run, address) or (reads and fed(run, command)):
        run.note(4, SENDS)


def redirected(run: Run, words: list[str], target: str, command: Command) -> None:
    """Note a redirection to the net: of a shell, or of what holds secrets."""
    if not _NET.match(target):
        return
    if any(one.rsplit("/", 1)[-1] in programs.SHELLS for one in words[:4]):
        run.note(4, "gives a shell to another machine")
    elif _shows(run, words) or fed(run, command):
        run.note(4, SENDS)


def opened(run: Run, program: str, argv: list[str], command: Command) -> None:
    """Note what ``nc``, ``socat`` and their like hand to the other end."""
    words = argv[1:]
    given = any(
        one[:1] == "-"
        and one[1:2] != "-"
        and one[-1:] in ("e", "c")
        and word.split(" ")[0].rsplit("/", 1)[-1] in programs.SHELLS
        for one, word in pairwise(words)
    )
    if program == "socat":
        given = any(one.lower().startswith(("exec:", "system:", "shell:")) for one in words)
    at = command.piped
    if given or (
        at is not None and any(one.rsplit("/", 1)[-1] in programs.SHELLS for one in at.words[:2]) and not at.stdin
    ):
        run.note(4, "gives a shell to another machine")
    elif not any(is_here(one) for one in words[:64]) and fed(run, command):
        run.note(4, SENDS)
