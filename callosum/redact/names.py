"""Tells from a name whether what stands under it is a secret."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache
from itertools import pairwise
from typing import Final

from callosum.redact.disguise import undisguised

NAME_LIMIT: Final = 80
"""Longest name that is looked at, in characters; of a longer one the end decides."""


class Cover(IntEnum):
    """How much of what stands under a name is hidden."""

    NOTHING = 0
    STRINGS = 1
    ALL = 2


_SECRETS: Final = frozenset(
    "password passwords passwort passwd passphrase passcode passkey pwd psk secret secrets credential credentials "
    "authorization cookie cookies jwt cvv cvc ssn apikeys apitoken cardnumber mnemonic".split()
)
_ENDINGS: Final = (
    *("password", "passwd", "passphrase", "secret"),
    *("apikey", "privatekey", "accesskey", "secretkey", "accountkey", "sharedkey"),
)
_KEYS: Final = frozenset(
    "api access private secret encryption signing ssh master auth deploy license hmac account shared preshared "
    "storage subscription functions consumer service server client root recovery app admin bot wallet webhook".split()
)
"""What a key is for, or of, when it opens something."""
_SOFT: Final = frozenset(["token", "tokens", "pass", "auth", "otp", "totp"])
"""Words that also stand for counts, flags and groups: only strings under them are hidden."""
_UNITS: Final = frozenset(
    "max min num total prompt completion input output cached reasoning thinking budget new stop "
    "special pad eos bos page next continuation sync cancel cancellation".split()
)
"""Next to ``token`` these make it a unit of text, a place in a list or a signal."""
_ABOUT: Final = frozenset(
    "count limit length len type kind name policy hint url uri endpoint expiry expires expiration "
    "at in ttl file path field label rotation required enabled usage strength status changed reset "
    "email stdin scheme method mode provider consent banner manager max min".split()
)
"""As the last word these say something about a secret instead of giving it."""
_FOLDERS: Final = frozenset(["PWD", "OLDPWD"])
"""A shell's variables for its working folders."""

HARD_STEMS: Final = (
    "passw|passphrase|passcode|passkey|pwd|psk|secret|credential|authorization|cookie|jwt|cvv|cvc|ssn|mnemonic"
)
"""Beginnings of words under which numbers are hidden too, as a part of a regular expression."""
SOFT_STEMS: Final = "token|pass|auth|otp"
"""Beginnings of words under which only texts are hidden."""
KEY_KINDS: Final = "|".join(sorted(_KEYS))
"""Words before ``key`` that make it a secret."""

SECRET_NAME: Final = (
    rf"[A-Za-z0-9_.-]*(?i:{HARD_STEMS}|{SOFT_STEMS}|(?:{KEY_KINDS})[ _.-]?key|card[ _.-]?number)[A-Za-z0-9_.-]*"
).encode()
"""A pattern of bytes that matches all ASCII names that ``cover`` knows, and some more."""

PAIR_NAMES: Final = frozenset(["value", "selector", "element", "locator"])
"""Names in an object whose other values say what a value is: ``{"name": "DB_PASSWORD", "value": "X"}``."""

_WORD: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")


@lru_cache(maxsize=4096)
def _cover(name: str) -> Cover:
    words = [word.lower() for word in _WORD.findall(name)]
    if not words or words[-1] in _ABOUT or name in _FOLDERS:
        return Cover.NOTHING
    if any(word in _SECRETS or word.endswith(_ENDINGS) for word in words):
        return Cover.ALL
    for first, second in pairwise(words):
        if second in ("key", "keys") and first in _KEYS:
            return Cover.ALL
        if (first, second) == ("card", "number"):
            return Cover.ALL
    if any(word in _SOFT or word.endswith("token") for word in words):
        return Cover.NOTHING if _UNITS.intersection(words) else Cover.STRINGS
    return Cover.NOTHING


def cover(name: str) -> Cover:
    """Return how much to hide under ``name``, whatever its case and its separators."""
    name = name[-NAME_LIMIT:]
    return _cover(name if name.isascii() else undisguised(name))


def names_secret(item: object) -> bool:
    """Return whether an item of a list is an option (``--password``) whose argument, the next item, is a secret."""
    return (
        isinstance(item, str) and item[:1] == "-" and len(item) <= NAME_LIMIT and "=" not in item and bool(cover(item))
    )
