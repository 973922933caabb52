"""Decide from a name whether its value is a secret."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from callosum.redact.disguises import undisguised

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

NAME_LIMIT: Final = 80
"""Longest name that is examined, in characters; only the end of a longer one counts."""


class Concealment(IntEnum):
    """How much of a name's value is hidden: nothing, text that looks random, all text, numbers too."""

    NOTHING = 0
    RANDOM = 1
    STRINGS = 2
    ALL = 3


_SECRETS: Final = frozenset(
    "password passwords passwort passwd passphrase passcode passkey pwd psk secret secrets credential credentials "
    "authorization cookie cookies jwt cvv cvc ssn apikeys apitoken cardnumber mnemonic creds pepper pincode puk "
    "passwrd pswd pword kennwort contrasena clave senha mdp wachtwoord heslo haslo parola salasana losenord "
    "adgangskode passord jelszo dockerconfigjson dockercfg otp totp hotp".split()
)
_ENDINGS: Final = (
    *("password", "passwd", "passphrase", "secret"),
    *("apikey", "privatekey", "accesskey", "secretkey", "accountkey", "sharedkey", "authkey", "setupkey", "masterkey"),
    *("userpw", "rootpw", "bindpw", "adminpw", "dbpw", "dbpass", "userpass", "sshpass", "keypass", "storepass", "pwd"),
)
_KEYS: Final = frozenset(
    "api access private secret encryption signing ssh master auth deploy license hmac account shared preshared "
    "storage subscription functions consumer service server client root recovery app admin bot wallet webhook setup "
    "cipher unseal unlock fernet activation wifi wep wpa".split()
)
"""Words before ``key`` that make it a secret: what the key opens or who owns it."""
_SOFT: Final = frozenset(["token", "tokens", "pass", "auth", "pin", "csrf", "xsrf"])
"""Words that also name counts, flags and groups: only strings under them are hidden."""
_CODES: Final = frozenset(
    "access alarm auth authentication authorization backup confirmation device door entry gate login mfa otp pairing "
    "pin recovery scratch security sms time unlock verification".split()
)
"""Words before ``code`` that make it a secret: what the code opens or confirms."""
_RANDOM: Final = frozenset(
    "key keys sid sessid sessionid sig signature seed salt cred crumb hmac license sas serial verifier "
    "assertion".split()
)
"""Last words under which only a random-looking text is hidden, because they often name something else."""
_UNITS: Final = frozenset(
    "max min num total prompt completion input output cached reasoning thinking budget new stop "
    "special pad eos bos page next continuation sync cancel cancellation".split()
)
"""Words next to ``token`` that make it a unit of text, a position in a list or a signal."""
_ABOUT: Final = frozenset(
    "count limit length len type kind name policy hint url uri endpoint expiry expires expiration "
    "at in ttl file path field label rotation required enabled usage strength status changed reset "
    "email stdin scheme method mode provider consent banner manager max min".split()
)
"""Last words that describe a secret instead of containing it."""
_NOT_SECRET: Final = frozenset("public publishable primary foreign cache partition sort object".split())
"""Words next to ``key`` that make it the key of a row or a file, or a public key."""
_FOLDERS: Final = frozenset(["PWD", "OLDPWD"])
"""A shell's variables for its working folders."""

HARD_STEMS: Final = (
    "passw|pswd|pword|passphrase|passcode|passkey|pwd|psk|secret|credential|creds|authorization|cookie|jwt|cvv|cvc|ssn|"
    "mnemonic|pepper|pin_?code|kennwort|contrasena|senha|wachtwoord|heslo|parola|salasana|losenord|adgangskode|passord|"
    "dockerconfigjson|dockercfg|key-data|key-?material|app_?certificate|otp|"
    r"(?:\b|_)(?:puk|clave|mdp|haslo|jelszo)\b|(?:user|root|bind|admin|db)_?pw"
)
"""Beginnings of words under which numbers are hidden too, as part of a regular expression."""
SOFT_STEMS: Final = r"token|pass|auth|(?:\b|_)pin\b|pw(?:\b|[_0-9])|csrf|xsrf"
"""Beginnings of words under which only texts are hidden."""
KEY_KINDS: Final = "|".join(sorted(_KEYS))
"""Words before ``key`` that make it a secret."""
CODE_KINDS: Final = "|".join(sorted(_CODES))
"""Words before ``code`` that make it a secret."""
RANDOM_STEMS: Final = "|".join(sorted(_RANDOM))
"""Ends of names under which random-looking texts are hidden."""

SECRET_STEM: Final = (
    rf"(?i:{HARD_STEMS}|{SOFT_STEMS}|(?:{KEY_KINDS})[ _.-]?key|"
    rf"(?:{CODE_KINDS})[ _.-]?code|snmp[ _.-]?community|card[ _.-]?number)"
).encode()
"""A pattern of bytes that matches inside every ASCII name that ``cover`` knows, and some others."""

NAME_CHARACTERS: Final = rb"[A-Za-z0-9_.-]*"
SECRET_NAME: Final = NAME_CHARACTERS + SECRET_STEM + NAME_CHARACTERS
"""A pattern of bytes that matches every ASCII name that ``cover`` knows, and some others."""

LABELS: Final = frozenset(
    "name key header field id label title type variable param parameter parameterkey env property placeholder".split()
)
"""Names, in lower case, under which an object names its value: ``{"name": "DB_PASSWORD", "value": "X"}``."""
PAGE_PARTS: Final = frozenset(["selector", "element", "locator", "ref"])
"""Names under which an object says into which field of a web page it types a text."""
PAIR_VALUES: Final = frozenset("value Value val text ParameterValue stringValue".split())
"""Names under which an object that names its value (``LABELS``, ``PAGE_PARTS``) holds that value."""

_FIELD_WORDS: Final = re.compile(r"(?i)\b(?:field|input|box)\W*\Z")
_NO_WORD: Final = re.compile(r"[0-9!@#$%^&*+=]|[a-z][A-Z]|[-_.][^-_.]+[-_.]")
"""Features of a value that is not an ordinary word; a list of two may also be two names."""
_WORD: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")


@lru_cache(maxsize=4096)
def _cover(name: str) -> Concealment:
    words = [word.lower() for word in _WORD.findall(name)]
    if not words or words[-1] in _ABOUT or name in _FOLDERS:
        return Concealment.NOTHING
    if any(word in _SECRETS or word.endswith(_ENDINGS) for word in words):
        return Concealment.ALL
    for first, second in pairwise(words):
        if second in ("key", "keys") and first in _KEYS:
            return Concealment.ALL
        if (first, second) in (("card", "number"), ("key", "data"), ("key", "material"), ("app", "certificate")):
            return Concealment.ALL
        if (second in ("code", "codes") and first in _CODES) or (first, second) == ("snmp", "community"):
            return Concealment.ALL
    if any(word in _SOFT or word.endswith(("token", "pw")) for word in words):
        return Concealment.NOTHING if _UNITS.intersection(words) else Concealment.STRINGS
    return Concealment.RANDOM if words[-1] in _RANDOM and _NOT_SECRET.isdisjoint(words) else Concealment.NOTHING


def cover(name: str) -> Concealment:
    """Return how much to hide under ``name``, whatever its case and separators."""
    name = name[-NAME_LIMIT:]
    return _cover(name if name.isascii() else undisguised(name))


def names_secret(item: object) -> bool:
    """Return True if a list item is an option (``--password``) whose argument, the next item, is a secret."""
    return (
        isinstance(item, str) and item[:1] == "-" and len(item) <= NAME_LIMIT and "=" not in item and bool(cover(item))
    )


def cover_of_pair(items: Iterable[tuple[object, object]]) -> Concealment:
    """Return how much to hide of an object's value, by its label: ``{"name": "Authorization", "value": "..."}``."""
    most = Concealment.NOTHING
    for name, value in items:
        if type(name) is str and type(value) is str:
            low = name.lower()
            if low in LABELS:
                most = max(most, cover(value))
            elif low in PAGE_PARTS:
                most = max(most, cover(_FIELD_WORDS.sub("", value[-NAME_LIMIT:])))
    return most


def is_secret_pair(items: Sequence[object]) -> bool:
    """Return True if a list is a name and its secret: ``["X-Api-Key", "..."]`` in a list of headers."""
    if len(items) != 2:
        return False
    name, value = items
    return (
        type(name) is str
        and type(value) is str
        and len(name) <= NAME_LIMIT
        and cover(name) > Concealment.RANDOM
        and _NO_WORD.search(value) is not None
    )
