"""Replace secrets in keys and names by a keyed digest: nobody can read them, and equal secrets stay equal."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Final

from callosum.model import MAX_KEY
from callosum.redact.redactor import MARKER, REDACTOR, is_plain

_MARK: Final = re.compile(rb"\[redacted:[0-9a-f]{8}\]|\[redacted\]")
_KINDS: Final = frozenset("secret secrets token tokens credential credentials cookie cookies auth".split())
"""Kinds of keys that hold a thing's name, which is not a secret: ``secret:prod/DB_PASSWORD``."""
_CUT: Final = re.compile(r"~[0-9a-f]{32}\Z")
"""The end of a key that was cut."""
_WORD: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.~%+-"
"""Characters of the last, incomplete word of a key that was cut: half a secret has lost its shape."""
_SHORTEST: Final = 4
"""Shortest secret of a param that is searched for in a key, in characters: shorter ones occur by chance."""


_CUT_MARK: Final = re.compile(r"\[[a-z0-9:]*\Z")
_DIGIT: Final = re.compile(r"[0-9]")
_ROOM: Final = 32
"""Characters reserved for the digest of a key that has become too long."""


class SecretDigests:
    """Replace each secret by ``[redacted:3f9ac2d1]``. ``key`` is the gate's content key (any length).

    Whatever ``redact_text`` hides in a text is replaced in a key or a name too. Replacing twice changes nothing more.
    """

    def __init__(self, key: bytes) -> None:
        short = key if len(key) <= 64 else blake2b(key).digest()
        self._state = blake2b(digest_size=4, key=short, person=b"secret")
        self.name: Callable[[str], str] = lru_cache(maxsize=4096)(partial(REDACTOR.redact, mark=self._mark))
        """Return the name of a session, a tool or the like without secrets."""
        self.key: Callable[[str], str] = lru_cache(maxsize=4096)(self._key)
        """Return a context key without secrets: the same object if it holds none.

        Each part between slashes has a digest of its own, so that a tree still covers what is below it.
        """

    def key_without(self, name: str, secrets: Iterable[str]) -> str:
        """Return a context key without these secrets, where they are whole words, and without other secrets."""
        for secret in secrets:
            name = self._without(name, secret.strip())
        return self.key(name)

    def _key(self, name: str) -> str:
        if len(name) == MAX_KEY and _CUT.search(name):
            rest = name[:-33].rstrip(_WORD)
            if _DIGIT.search(name, len(rest), MAX_KEY - 33):
                name = rest + self._digest(name[len(rest) :].encode()).decode()
        if is_plain(name):
            return name
        base, bar, facet = name.partition("|")
        kind, colon, value = base.partition(":")
        if kind.lower() in _KINDS:
            base = kind + colon + REDACTOR.redact(value, self._mark)
        else:
            base = REDACTOR.redact(base, self._mark)
        redacted = base + bar + REDACTOR.redact(facet, self._mark) if bar else base
        if redacted == name and bar and "[redacted" not in name:  # the bar may be a character of the secret
            redacted = kind + colon + REDACTOR.redact(name[len(kind) + len(colon) :], self._mark)
        return redacted if len(redacted) <= MAX_KEY else self._shortened(redacted)

    def _shortened(self, name: str) -> str:
        """Cut a key that its digests made too long; a tree becomes the nearest tree above it."""
        start = name[: MAX_KEY - _ROOM]
        if name[-1] == "/":
            return start[: start.rfind("/") + 1]
        return _CUT_MARK.sub("", start) + self._digest(name.encode("utf-8", "surrogatepass")).decode()

    def _without(self, name: str, secret: str) -> str:
        if len(secret) < _SHORTEST or secret == MARKER:
            return name
        mark = self._mark(secret.encode("utf-8", "surrogatepass")).decode()
        for form in dict.fromkeys((secret, secret.lower())):
            if form in name:
                name = re.sub(rf"(?<![A-Za-z0-9]){re.escape(form)}(?![A-Za-z0-9])", lambda _: mark, name)
        return name

    def _mark(self, secret: bytes) -> bytes:
        return b"/".join([self._digest(part) if part else part for part in secret.split(b"/")])

    def _digest(self, part: bytes) -> bytes:
        if _MARK.fullmatch(part):
            return part
        state = self._state.copy()
        state.update(part)
        return b"[redacted:%s]" % state.hexdigest().encode()
