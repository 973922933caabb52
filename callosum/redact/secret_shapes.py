"""Find secrets inside text: by the shape that their provider gave them, and by what precedes them.

RE2 matches every pattern on bytes, so time grows linearly with the text, whatever an agent writes. A text is first
searched for literals and clues, which cheaply show that it holds no secret; for most texts nothing else is needed.
"""

# ruff: noqa: E501  (a pattern is one line)

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache, cached_property, partial
from itertools import chain, compress
from typing import Any, Final, NamedTuple

import re2

from callosum.redact.disguises import UNDISGUISED, undisguised
from callosum.redact.program_options import ANY_PROGRAM, ARGUMENTS, OPTIONS, PAIRS, READERS, SETTERS
from callosum.redact.providers import PROVIDERS, WEBHOOKS, Provider
from callosum.redact.randomness import holds_word, looks_random
from callosum.redact.secret_names import (
    CODE_KINDS,
    KEY_KINDS,
    NAME_CHARACTERS,
    NAME_LIMIT,
    RANDOM_STEMS,
    SECRET_NAME,
    SECRET_STEM,
    Concealment,
    cover,
)

MARKER: Final = "[redacted]"
"""The replacement of a secret."""

Mark = Callable[[bytes], bytes]
"""Return the replacement of a secret, which must match ``_MARKED``."""

_MARKED: Final = rb"\[redacted(?::[0-9a-f]{8})?\]"
"""The form of ``MARKER`` and of the marks of ``SecretDigests``."""
_IS_MARKED: Final = re.compile(_MARKED)
_DIGIT: Final = re.compile(rb"[0-9]")
_SURELY_NO_WORD: Final = 24
"""Length from which text after ``Bearer`` is no English word, with or without digits."""
_HARMLESS: Final = re.compile(
    rb"str|string|bytes|bool|int|any|none|null|true|false|undefined|optional\W.*|\*+|=+|"
    rb"os\.environ.*|os\.getenv.*|process\.env.*|" + _MARKED,
    re.IGNORECASE,
)
"""Values that reveal nothing: types, empty values, and references to the environment."""
_VARIABLE: Final = re.compile(rb"\$\{?[A-Z_][A-Z0-9_]*\}?|\$\(.*|\$\{\{.*")


class _Match:
    """The groups of a match, typed: the regex library has no types."""

    __slots__ = ("_match",)

    def __init__(self, match: Any) -> None:
        self._match = match

    def __getitem__(self, group: int) -> bytes:
        text: bytes | None = self._match.group(group)
        return text or b""

    def start(self, group: int) -> int:
        offset: int = self._match.start(group)
        return offset

    def end(self, group: int = 0) -> int:
        offset: int = self._match.end(group)
        return offset


Replace = Callable[[_Match, Mark], bytes]


def _all(match: _Match, mark: Mark) -> bytes:
    return mark(match[0])


def _after(match: _Match, mark: Mark) -> bytes:
    return match[1] + mark(match[2])


def _login(match: _Match, mark: Mark) -> bytes:
    return match[1] + mark(match[2]) + b"@"


def _unless_words(match: _Match, mark: Mark) -> bytes:
    return match[1] + mark(match[2]) if _DIGIT.search(match[2]) else match[0]


def _after_scheme(match: _Match, mark: Mark) -> bytes:
    if len(match[2]) < _SURELY_NO_WORD and not _DIGIT.search(match[2]):
        return match[0]
    return match[1] + mark(match[2])


def _argument(match: _Match, mark: Mark) -> bytes:
    """Hide a value after a command's own option, with or without quotes."""
    return match[1] + _quoted(match[2], mark)


def _piped(match: _Match, mark: Mark) -> bytes:
    return match[1] + _quoted(match[2], mark) + match[3]


def _option_value(match: _Match, mark: Mark) -> bytes:
    """Hide the value of an option, unless it is a variable."""
    return match[0] if _VARIABLE.fullmatch(_bare(match[2])[1]) else _argument(match, mark)


def _argument_value(match: _Match, mark: Mark) -> bytes:
    """Hide an argument, unless it reads like a path, a Windows option or a word."""
    bare = _bare(match[2])[1]
    if len(bare) < _SHORTEST_ARGUMENT or bare[:1] in _PATH_OR_OPTION or _is_no_value(bare) or not _NO_WORD.search(bare):
        return match[0]
    return _argument(match, mark)


def _printed(match: _Match, mark: Mark) -> bytes:
    """Hide the text printed for a program that reads a secret, except for options, formats and variables."""

    def shown(word: re.Match[bytes]) -> bytes:
        bare = _bare(word[0])[1]
        if len(bare) < _SHORTEST_ARGUMENT or bare[:1] == b"-" or b"%s" in bare or _is_no_value(bare):
            return word[0]
        return word[0] if _READ_LATER.fullmatch(bare) else _quoted(word[0], mark)

    return match[1] + _PRINTED.sub(shown, match[2]) + match[3]


def _all_pairs(match: _Match, mark: Mark) -> bytes:
    """Hide the value of each ``NAME=VALUE`` after a command that stores secrets."""
    return match[1] + _PAIR.sub(lambda pair: pair[1] + _quoted(pair[2], mark), match[2])


def _parameters(match: _Match, mark: Mark) -> bytes:
    """Hide the parameters of an authentication scheme if one of them proves the caller's identity."""
    return match[1] + mark(match[2]) if _PROOF.search(match[2]) else match[0]


def _both_random(match: _Match, mark: Mark) -> bytes:
    """Hide two random words after a prefix, joined by a dot: an identifier and its secret."""
    random = _HAS_RUN.search(match[3]) and all(map(looks_random, match[3].split(b".")))
    return match[1] + mark(match[2] + match[3]) if random else match[0]


def _clinging(match: _Match, mark: Mark) -> bytes:
    """Hide the rest of a secret of which another pattern hid only a part."""
    return mark(match[1] + match[2]) if looks_random(match[2].strip(b":_./+~=-")) else match[0]


def _under_name(match: _Match, mark: Mark) -> bytes:
    """Hide the value under a secret's name; the groups are what precedes it, the name, the separator and the value."""
    value = match[4]
    if not _is_secret(match[2], _bare(value)[1]):
        return match[0]
    return match[1] + match[2] + match[3] + _quoted(value, mark)


def _spoken(match: _Match, mark: Mark) -> bytes:
    """Hide a value that a sentence names: ``the password is X``. An ordinary word stays."""
    value = match[2]
    bare = _bare(value)[1]
    if _HARMLESS.fullmatch(bare) or _VARIABLE.fullmatch(bare) or not _NO_WORD.search(bare):
        return match[0]
    if bare.isdigit() and b"token" in match[1].lower():
        return match[0]  # a count of tokens
    return match[1] + _quoted(value, mark)


def _spoken_key(match: _Match, mark: Mark) -> bytes:
    """Hide a long value with digits after a word such as ``key``, which often means something other than a secret."""
    random = looks_random(match[2]) or len(_DIGIT.findall(match[2])) > 1
    return match[1] + mark(match[2]) if random else match[0]


def _inside(match: _Match, mark: Mark) -> bytes:
    """Hide the values with a digit in an object under a secret's name: ``"cookies": {"sid": "X"}``."""
    if _under(match[1]) is not Concealment.ALL:
        return match[0]
    inner = _MEMBER.sub(lambda member: member[1] + mark(member[2]), match[3])
    return match[1] + match[2] + inner


def _under(name: bytes) -> Concealment:
    return cover(name[-NAME_LIMIT:].decode("ascii", "replace"))


def _random_word(match: _Match, mark: Mark) -> bytes:
    """Hide a long word of letters in both cases and digits, in which no part reads like a word."""
    word = match[2]
    if word in (word.lower(), word.upper()) or len(_DIGIT.findall(word)) < max(2, len(word) // 16):
        return match[0]
    if not looks_random(word) or word.startswith(_DATA):
        return match[0]
    if any(part[:1] in b"10" and len(part) in _DRIVE for part in word.split(b"/")):
        return match[0]
    return match[1] + mark(word)


def _if_random(match: _Match, mark: Mark) -> bytes:
    """Hide a value that looks random, possibly followed by a quote or the like."""
    return match[1] + mark(match[2]) + match[3] if looks_random(match[2]) else match[0]


def _under_random_name(match: _Match, mark: Mark) -> bytes:
    """Hide a value that looks random under a name that often means something else: ``FOO_KEY=X``."""
    hide = cover(match[2][-NAME_LIMIT:].decode("ascii", "replace"))
    if hide is not Concealment.RANDOM or not looks_random(match[4]):
        return match[0]
    return match[1] + match[2] + match[3] + mark(match[4])


def _given(match: _Match, mark: Mark) -> bytes:
    """Hide a value that follows a word for a secret without a sign between them: ``password X``."""
    value = match[2]
    bare = _bare(value)[1]
    if len(bare) < _SHORTEST_GIVEN or _is_no_value(bare) or not (_NO_WORD if match[3] else _SIGNS).search(bare):
        return match[0]
    return match[1] + _quoted(value, mark) + match[3]


def _is_no_value(bare: bytes) -> bool:
    """Return True if a text is a variable, an assignment or a word that reveals nothing."""
    return bool(_HARMLESS.fullmatch(bare) or _VARIABLE.fullmatch(bare) or _ASSIGNED.match(bare))


def _password_of(match: _Match, mark: Mark) -> bytes:
    """Hide the value of an option such as ``-p`` that often means something else: a port, a path, a project."""
    value = match[2]
    bare = _bare(value)[1]
    if len(bare) < _SHORTEST_GIVEN or not _PASSWORD.fullmatch(bare) or not _NO_WORD.search(bare) or bare.isdigit():
        return match[0]
    return match[1] + _quoted(value, mark)


def _on_a_line(match: _Match, mark: Mark) -> bytes:
    """Hide the value of a setting on a line of its own: ``requirepass X``."""
    value = match[3]
    bare = _bare(value)[1]
    if not _is_secret(match[1], bare) or not _NO_WORD.search(bare):
        return match[0]
    return match[1] + match[2] + _quoted(value, mark) + match[4]


def _card(match: _Match, mark: Mark) -> bytes:
    """Hide the number of a payment card: its last digit checks the others (ISO/IEC 7812)."""
    digits = [int(digit) for digit in match[2].decode() if digit.isdigit()]
    doubled = [2 * digit - 9 * (digit > 4) for digit in digits[-2::-2]]
    if len(set(digits)) < _FEWEST_DIGITS or (sum(digits[-1::-2]) + sum(doubled)) % 10:
        return match[0]
    return match[1] + mark(match[2])


def _access_key(match: _Match, mark: Mark) -> bytes:
    """Hide an identifier of twenty capitals and digits, as several clouds issue them."""
    return match[1] + mark(match[2]) if len(_DIGIT.findall(match[2])) > 1 else match[0]


_NO_WORD: Final = re.compile(rb"[0-9!@#$%^&*+=]|[a-z][A-Z]|^(?=.{14})[^-_.]+[-_.][^-_.]+[-_.][^-_.]")
"""Features that ordinary words lack: digits, signs, a capital inside, or three long parts."""
_MEMBER: Final = re.compile(rb"""(:\s{0,3}\\?["'])([^"'\\]*[0-9][^"'\\]{5,}|[^"'\\]{5,}[0-9][^"'\\]*)""")
_SIGNS: Final = re.compile(rb"[0-9!@#$%^&*+=]|[a-z][A-Z]")
"""Features of values that are not words in a sentence."""
_SHORTEST_GIVEN: Final = 6
_SHORTEST_ARGUMENT: Final = 4
_PATH_OR_OPTION: Final = b"/.~*<>|"
"""Signs at the beginning of an argument that is not a secret."""
_PRINTED: Final = re.compile(rb"""\\?"[^"\n]*"|'[^'\n]*'|[^\s"']+""")
"""A word that a shell prints."""
_READ_LATER: Final = re.compile(rb"[A-Za-z0-9_.@-]*(?::?\$\{?[A-Za-z_][A-Za-z0-9_]*\}?){1,2}|[A-Za-z0-9_.@-]*:?\$\(.*")
"""A variable or the output of a command, possibly after a user's name."""
_PAIR: Final = re.compile(
    rb"""([\s"'=][A-Za-z_][A-Za-z0-9_.-]*=)(\\?"[^"\n]*"|'[^'\n]*'|[^\s"'$@./~][^\s"']*)""",
)
_PROOF: Final = re.compile(rb"(?i)\b(?:response|oauth_signature|oauth_token|signature|mac|credential)=")
"""A parameter that can only be made with the secret."""
_ASSIGNED: Final = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*=")
_PASSWORD: Final = re.compile(rb"[A-Za-z0-9#_.!*@%&+=~,-]*[A-Za-z][A-Za-z0-9#_.!*@%&+=~,-]*")
"""A value that is not a path, a port or a regular expression."""
_FEWEST_DIGITS: Final = 3
"""Fewest different digits in the number of a card: a row of zeros is an example."""
_DRIVE: Final = (28, 33, 44)
"""Lengths of document identifiers, which begin with 1 or 0."""
_DATA: Final = (b"iVBORw0KGgo", b"AAMk", b"JVBERi0")
"""Beginnings of pictures, documents and mail identifiers in base64."""


def _random_tail(match: _Match, mark: Mark) -> bytes:
    """Hide a prefix and a long tail that looks random, unless the prefix says that this is an identifier."""
    prefix, tail = match[2], match[3]
    if _TELLING.search(prefix.lower()):
        if (len(_DIGIT.findall(tail)) < _FEWEST_IN_TAIL or holds_word(tail)) and not looks_random(tail):
            return match[0]
        return match[1] + mark(prefix + tail)
    if not _THINGS.isdisjoint(_PARTS.split(prefix.lower())) or not looks_random(tail):
        return match[0]
    mixed = tail != tail.lower() and tail != tail.upper()
    if len(tail) < (_SHORTEST_TAIL if mixed else _SHORTEST_PLAIN_TAIL) or not (mixed or prefix[-1:] == b"_"):
        return match[0]
    return match[1] + mark(prefix + tail)


_FEWEST_IN_TAIL: Final = 2
_SHORTEST_TAIL: Final = 20
_SHORTEST_PLAIN_TAIL: Final = 30
"""Shortest tail in one case, such as hexadecimal digits, after a prefix that does not say what it is."""
_PARTS: Final = re.compile(rb"[_-]")
_THINGS: Final = frozenset(
    b"id img image pic doc md5 sha sha1 sha256 sha512 file msg message req request res resp response log tmp cache key row "
    b"job task call node item page user org team hash blob chat conv step tag ver rev ref uid evt event run thread "
    b"session toolu tool chatcmpl cmpl asst batch cus ch pi in sub src acct card txn price prod product proj project "
    b"commit build snapshot layer asset chunk bundle vendor index trace span view channel etag digest checksum".split()
)
"""Words before an identifier that is not a secret."""
_TELLING: Final = re.compile(rb"(?:api|sdk|pat|key|tok|tkn|token|sk|secret|live|prod|auth|cred)[0-9]{0,2}[_.-]")

_STRING_KINDS: Final = b"@$bBeEfFLNrRuU"
"""Letters before a quote that make another kind of string: ``N'X'`` in SQL, ``b"X"`` in Python."""
_OPENING: Final = re.compile(rb"""(?:[@$bBeEfFLNrRuU]{1,2})?\\{0,3}["']""")


def _bare(value: bytes) -> tuple[bytes, bytes]:
    """Return the quote that a value begins with, if any, and the value without quotes."""
    found = _OPENING.match(value)
    opening = found[0] if found else b""
    return opening, value[len(opening) :].removesuffix(opening.lstrip(_STRING_KINDS))


def _quoted(value: bytes, mark: Mark) -> bytes:
    """Return the mark of a value, in the quotes that the value had."""
    quote, bare = _bare(value)
    end = quote.lstrip(_STRING_KINDS)
    closed = bool(end) and len(value) > len(quote) and value.endswith(end)
    return quote + mark(bare) + (end if closed else b"")


def _is_secret(name: bytes, bare: bytes) -> bool:
    """Return True if a value under a name reveals something."""
    hide = cover(name[-NAME_LIMIT:].decode("ascii", "replace"))
    if not bare or hide is Concealment.NOTHING or (hide is Concealment.STRINGS and bare.isdigit()):
        return False
    if hide is Concealment.RANDOM:
        return looks_random(bare)
    return not (_HARMLESS.fullmatch(bare) or _VARIABLE.fullmatch(bare))


class _Shape(NamedTuple):
    """A pattern of bytes, and the replacement of a match."""

    pattern: bytes
    replace: Replace
    clue: bytes | None = None
    """The clue, one of ``CLUES``, that matches every text that ``pattern`` matches."""
    needs: bytes = b""
    """A sign in every text that ``pattern`` matches: finding it costs less than searching."""
    parts: tuple[tuple[bytes, Replace], ...] = ()
    """Alternatives of ``pattern``, replaced one after another.

    In a single search, RE2 follows an alternative that precedes the match to the end of the line, and does so again
    after each match: the time grows with the square of the line.
    """


_VALUE: Final = (
    rb"""(\\{1,3}"[^"\\\n]*(?:\\{1,3}")?|"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?"""
    rb"""|[@$bBeEfFLNrRuU]{1,2}(?:"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?)"""
    rb"""|\$\{\{[^}\n]*\}{0,2}|\$\{[^}\s]*\}?|\$\([^)\n]*\)?|(?:[^\s,;&"'{}()\[\]<>\\]*"""
    + _MARKED
    + rb""")+[^\s,;&"'{}()\[\]<>\\]*|[^\s,;&"'{}()\[\]<>]+)"""
)
_WORD_VALUE: Final = (
    rb"""([@$bBeEfFLNrRuU]?\\?'[^'\n\\]*\\?'?|[@$bBeEfFLNrRuU]?\\?"[^"\n\\]*\\?"?|[^\s"'\\-][^\s"'\\]*)"""
)
"""The value of an option on a command line."""
_NEW_VALUE: Final = (
    rb"""([@$bBeEfFLNrRuU]?\\?'(?:[^'\n\\\[]|\[[^'\n\\r])[^'\n\\]*\\?'?"""
    rb"""|[@$bBeEfFLNrRuU]?\\?"(?:[^"\n\\\[]|\[[^"\n\\r])[^"\n\\]*\\?"?|(?:[^\s"'\\\[|;&<>-]|\[[^\s"'\\r])[^\s"'\\]*)"""
)
"""The same, unless it is already hidden: the next pass finds the next option of the same command."""
_BETWEEN: Final = (
    rb"""((?:\]|%5[Dd])?\\{0,3}["']?\]?[ \t]*\s{0,3}(?::=|=>|==|[:=])[ \t]*\s{0,3}(?:[|>][+-]?\s{1,16})?|\\{0,3}["']\s{0,3},\s{0,3}"""
    rb"""|(?:%22)?%3[AaDd](?:%20)?(?:%22)?)"""
)
"""Separators between a name and its value: ``: ``, ``" => ``, ``", "``."""

_PASSES: Final = 4
"""Most passes over a text: the replacement of one secret can join the ends of another."""
_START: Final = r"(\\[nrt]|%[0-9A-Fa-f]{2}|_|\b)"
"""The beginning of a word, also after an escaped break, as in text inside JSON text."""

_SECRET_PARAMS: Final = (
    rb"(?:sig|signature|oauth_signature|sharedaccesssignature|x-(?:amz|goog)-(?:signature|credential|security-token)|"
    rb"assertion|client_assertion|samlresponse|code_verifier|rlkey)"
)
"""Parameters of a URL that hold a signature."""
_UNTYPED_PARAMS: Final = (
    rb"(?:[a-z_-]{0,20}key|code|hash|auth|sid|session|session_id|sessionid|ticket|k|t|s|h|app_?id|hmac|magic|invite|"
    rb"otp|state|nonce|jwt|access|confirmation|verify|u)"
)
"""Parameters of a URL that hold a secret if their value is long and has a digit."""


_SPOKEN_NAMES: Final = (
    r"(?:password|passwort|kennwort|passcode|passphrase|contraseña|mot de passe|senha|wachtwoord|lösenord|heslo|пароль|"
    r"密码|密碼|口令|パスワード|暗証番号|비밀번호|hasło|heslo|parola|salasana|clave|code secret|community(?: string)?|"
    r"secret|token|pw|pwd|pin|(?:" + KEY_KINDS + r")[ _-]key|(?:" + CODE_KINDS + r")[ _-]code)"
).encode()
"""Words for a secret in sentences."""
_SPOKEN_VERB: Final = (
    r"(?:(?: (?:for|to|of|on|für|de|del|para|pour|do|da)(?: [^\s:=]{1,30}){1,3}){0,2}"
    r" (?:is|was|ist|lautet|es|est|é|è|jest|je|är|on|是|为|(?:has been |is )?(?:set|changed|reset) to)(?: now)?:?\s{1,3}"
    r"|\s{0,2}(?:→|->|:)\s{1,3}| to )"
).encode()
"""Words between the word for a secret and the secret."""


def _option(programs: bytes, option: bytes) -> bytes:
    return rb"\b(?:" + programs + rb")\b(?:[^\n|;&]*?\s|\s)" + option


_OPTION_ROWS: Final = tuple(_option(programs, option) for programs, option in OPTIONS)
_ARGUMENT_ROWS: Final = tuple(rb"\b(?:" + programs + rb")(?:\.exe)?\s+" + before for programs, before in ARGUMENTS)


_NAMED: Final = SECRET_STEM + rb"|(?i:" + _SPOKEN_NAMES + rb"|community|key-string|shared-key|identified by)"
"""The name of a secret, or a word for one in a sentence."""
_PROGRAMS: Final = b"|".join({programs: "" for programs, _ in (*OPTIONS, *ARGUMENTS) if programs != ANY_PROGRAM})
_PROGRAM: Final = rb"\s-D|\b(?:" + _PROGRAMS + rb")\b"
"""A program that takes a secret as an option or an argument."""
_RUN_LENGTH: Final = 16
_RUN: Final = b"|".join(
    b"[a-z]{%d}[A-Z0-9][A-Za-z0-9]{%d}" % (before, _RUN_LENGTH - 1 - before) for before in range(_RUN_LENGTH)
)
"""A long run of letters and digits that are not all lower case."""
_HAS_RUN: Final = re.compile(_RUN)
_FORMED: Final = (
    rb"[A-Za-z0-9+/]{16}=|[0-9][A-Z][A-Za-z0-9+/]{16}|[0-9][0-9 -]{11}|"
    rb"[0-9]{15}[:/]|[A-Fa-f0-9]{16}[-.:]|A(?:KI|SI|BI|CC|3T)[A-Z0-9]{16}|SK[A-Fa-f0-9]{16}|"
    rb"\bs\.[A-Za-z0-9]{16}|"
    rb"(?i:api|sdk|pat|key|tok|tkn|token|sk|secret|live|prod|auth|cred)[0-9]{0,2}[_.-][A-Za-z0-9_-]{16}|"
    rb"[A-Z]_[A-Z0-9_-]*[a-z][A-Za-z0-9_-]{16}|YC[A-Za-z0-9_-]{16}|[0-9]{8}[:|][A-Za-z0-9_-]{16}|"
    rb"\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{16}|[A-Za-z0-9]{13}!|[?&#][A-Za-z_-]+=[A-Za-z0-9._~%+/-]{16}|"
    rb"\$(?:1|5|6|y|2[abxy]|apr1|argon2|scrypt|pbkdf2)|\{(?:S?SHA|CRYPT|S?MD5|ARGON2|PBKDF2)|"
    rb"[ \t]\*[ \t]|:[0-9*]{1,5}:[A-Za-z_*]|\"(?:d|k|p|q|dp|dq|qi)\\?\"\s{0,3}:"
)
"""Signs that occur in few texts."""
_USER: Final = (
    rb"(?:^|\s)(?:-[uUl]|--(?:user|username|login))[ =]?[^\s]+\s(?:[^\n|;&]*?\s)?(?:-p|-P|-w|-pw|--pass)[ =]?"
)
_LOGIN: Final = _USER.replace(rb"^|\s", rb"^|[\s\"]") + rb"""|\s-(?:p|P|pw|W|passwd|u|U|a|A|C)[ =]?["']"""
"""Options of any program: for a user and then for a password, or one of these with a quote."""
CLUES: Final = ((_NAMED, _PROGRAM), (_RUN,), (_FORMED, _LOGIN))
"""What a text shows that may match a pattern without a literal. The clues of a group are searched for at once."""


_FIRST: Final = (
    _Shape(
        rb"(?s)-----? ?BEGIN[A-Za-z0-9 ]*(?:PRIVATE KEY|SECRET KEY|Static key)[A-Za-z0-9 ]*-----?.*?"
        rb"(?:-----? ?END[A-Za-z0-9 ]*(?:PRIVATE KEY|SECRET KEY|Static key)[A-Za-z0-9 ]*-----?|\z)",
        _all,
    ),
)


_SHAPES: Final = (
    _Shape(_START.encode() + rb"((?:sk|xai|pypi|nvapi)-[A-Za-z0-9_-]{16,})", _unless_words),
    _Shape(
        _START.encode() + rb"((?i:(?:[a-z0-9]{1,12}[_.-]){0,3}[a-z0-9]{0,10}"
        rb"(?:api|sdk|pat|key|tok|tkn|token|sk|secret|live|prod|auth|cred))[0-9]{0,2}[_.-])([A-Za-z0-9_-]{16,})",
        _random_tail,
        _FORMED,
    ),
    _Shape(
        _START.encode() + rb"([A-Za-z][A-Za-z0-9]{0,15}(?:[_-][A-Za-z0-9]{1,12}){0,3}[_-])([A-Za-z0-9]{20,})",
        _random_tail,
        _RUN,
    ),
    _Shape(
        _START.encode() + rb"([A-Za-z][A-Za-z0-9]{1,15}_)([A-Za-z0-9_-]*[A-Za-z0-9]{16}[A-Za-z0-9_-]*)",
        _random_tail,
        _RUN,
    ),
    _Shape(("((?:" + "|".join(WEBHOOKS) + "))").encode() + rb"([A-Za-z0-9_-]{8,}(?:/[A-Za-z0-9_-]+)*)", _after),
    _Shape(rb"""(://[^\s/:@?#"'<>]*:)([^\s/?"'<>]+)@""", _login, needs=b"@"),
    _Shape(rb"""(://)([^\s/:@?#"'<>]{20,})@""", _login, needs=b"@"),
    _Shape(
        rb"""(?i)(\b(?:digest|oauth|signature|hawk|aws4[a-z0-9-]*)\s{1,3})("""
        rb"""[a-z0-9_-]+=(?:\\?"[^"\\\n]*\\?"|[^\s,;"'\\]+)(?:\s{0,3},\s{0,3}[a-z0-9_-]+=(?:\\?"[^"\\\n]*\\?"|[^\s,;"'\\]+)){1,20})""",
        _parameters,
    ),
    _Shape(
        rb"""(?i)(\b(?:(?:proxy-)?authorization|(?:set-)?cookie)\\?["']?\s*:\s*\\?["']?)"""
        rb"(" + _MARKED + rb"""|(?:""" + _MARKED + rb"""|[^\r\n"'\\])+)""",
        _after,
    ),
    _Shape(rb"(?i)(\b(?:bearer|basic)\s+)([A-Za-z0-9._~+/=-]{8,})", _after_scheme),
    _Shape(rb"(?i)([?&;#]" + _SECRET_PARAMS + rb"""=)([^\s&#"'<>]{4,})""", _after, needs=b"="),
    _Shape(rb"(?i)([?&#]" + _UNTYPED_PARAMS + rb"""=)([A-Za-z0-9._~%+/-]{16,}=*)""", _unless_words, _FORMED),
    _Shape(
        rb"(?:" + b"|".join((*_OPTION_ROWS, *_ARGUMENT_ROWS)) + rb")" + _NEW_VALUE,
        _argument,
        _PROGRAM,
        parts=(
            *((rb"(" + row + rb")" + _NEW_VALUE, _option_value) for row in _OPTION_ROWS),
            *((rb"(" + row + rb")" + _NEW_VALUE, _argument_value) for row in _ARGUMENT_ROWS),
        ),
    ),
    _Shape(rb"(" + _option(*SETTERS) + rb")" + _NEW_VALUE, _option_value, _NAMED),
    _Shape(rb"(\b(?:" + PAIRS + rb")\b)([^\n|;&]+)", _all_pairs),
    _Shape(
        rb"""(\b(?:echo|printf|yes)\s+)((?:[^|\n"'\\]|\\?"[^"\n]*"|'[^'\n]*'|\\[^\n"'])+?)(\s*\|\s*"""
        rb"(?:(?:sudo|doas)\s+(?:-[^\s]+\s+)*|(?:ssh|docker|podman|kubectl|(?:arch-)?chroot|env|lxc)\s[^\n|;&]*?)?"
        rb"(?:(?:/usr)?(?:/local)?/s?bin/)?(?:su\s+(?:-\s+)?[a-z]|" + READERS + rb"))",
        _printed,
        needs=b"|",
    ),
    _Shape(rb"(\b(?:base64|" + READERS + rb")[^|\n]{0,60}<<<\s*)" + _NEW_VALUE, _argument),
    _Shape(
        rb"(\b(?:"
        + READERS
        + rb""")[^|\n]{0,60}<<-?\s{0,3}\\?["']?[A-Z_]{3,12}\\?["']?\n)([^\n]+(?:\n[^\n]+){0,9}?)(\n\s{0,8}[A-Z_]{3,12}\b)""",
        _printed,
    ),
    _Shape(rb"""(\bmachine\s+\S+\s+login\s+\S+\s+password\s+)(\S+)""", _after),
    _Shape(
        rb"(\$(?:1|5|6|y|2[abxy]|apr1|argon2i?d?|scrypt|pbkdf2-sha256)\$[^\s:$\"',]*\$)([^\s:\"',]{12,})",
        _after,
        _FORMED,
    ),
    _Shape(
        rb"(<(?:[A-Za-z0-9_.-]+:)?)("
        + SECRET_NAME
        + rb")((?:\s[^<>]*)?>\s{0,3}(?:<!\[CDATA\[)?)("
        + _MARKED
        + rb"|[^<>]+)",
        _under_name,
        _NAMED,
        b"<",
    ),
    _Shape(
        rb"""((?:name|key|id|property)=["'](?:[A-Za-z0-9_.-]{1,30}\[)?)("""
        + SECRET_NAME
        + rb""")(\]?["'][^<>]{0,60}>\s{0,20}(?:<(?:value|string)>)?)([^<>]+)""",
        _under_name,
    ),
    _Shape(rb"""(?i)("(?:card_?)?number\\?"\s{0,3}:\s{0,3}\\?")([0-9](?:[ -]?[0-9]){12,18})""", _after),
    _Shape(rb"(\buser\s+\S+\s+on\s+(?:\S+\s+){0,4}?>)(\S+)", _after),
    _Shape(rb"(?m)(^[^\s#]+[ \t]+\*[ \t]+)(\S{6,})([ \t]+\S+[ \t]*$)", _given, _FORMED),
    _Shape(
        rb"(?i)((?:-server|authentication)[ -]key[ \t]+(?:[0-9]{1,5}[ \t]+)?(?:md5[ \t]+|[078][ \t]+)?)(\S{6,})", _after
    ),
    _Shape(rb"(thin:[^/\s]{1,40}/)([^\s@]{4,})@", _login),
    _Shape(rb"(<key>)(" + SECRET_NAME + rb")(</key>\s{0,20}<string>)(" + _MARKED + rb"|[^<>]+)", _under_name),
    _Shape(
        rb"""((?i:name|key|header|param|label|field|placeholder|variable)\\?["']?\s{0,3}[:=]\s{0,3}\\?["']?(?:[A-Za-z0-9_.-]{1,30}\[)?)("""
        + SECRET_NAME
        + rb")"
        rb"""(\]?\\?["']?(?:\s[a-z-]{1,20}=["'][^"'<>]{0,60}["']){0,4}\s{0,3},?\s{0,20}\\?["']?(?i:value|secret|text|val)\\?["']?\s{0,3}[:=]\s{0,3})"""
        + _VALUE,
        _under_name,
    ),
    _Shape(rb"""(?i)(:\s{0,3}PSK\s{1,3}\\?["'])([^"'\\\n]{4,})""", _after),
    _Shape(rb"""(\\?"(?:d|k|p|q|dp|dq|qi)\\?"\s{0,3}:\s{0,3}\\?")([A-Za-z0-9_-]{40,})""", _after, _FORMED),
    _Shape(
        rb"(?m)^((?:[ \t]*(?i:ENV|ARG|SetEnv|setenv|setx|export|set|config set|fastcgi_param|env)[ \t]+)?[ \t]*"
        + SECRET_NAME
        + rb")([ \t]+(?:[0578][ \t]+)?)"
        + _WORD_VALUE
        + rb"([ \t]*;?[ \t]*\r?$)",
        _on_a_line,
        _NAMED,
    ),
    _Shape(
        rb"(?i)((?:\b|_|-)(?:passw(?:or)?d|passwort|passphrase|psk|secret|requirepass|masterauth|community|key-string|"
        rb"pre-shared-key|identified by|userpass|kennwort|set-initial-password|reset-admin-password)\s{1,3}"
        rb"(?:(?:[0578]|is|there is)\s{1,3})?)" + _WORD_VALUE + rb"()",
        _given,
        _NAMED,
    ),
    _Shape(
        rb"(?i)(\b(?:user(?:name)?|login|account)[ \t=:]{1,3}[^\s,;=]{1,40}[,;]?[ \t]{1,3}(?:and[ \t]{1,3})?"
        rb"(?:there[ \t]{1,3}with[ \t]{1,3})?(?:password|pass|pw|using|key)[ \t]{1,3}(?:is[ \t]{1,3})?)" + _WORD_VALUE,
        _argument,
    ),
    _Shape(
        rb"""(?i)(\b[a-z0-9_.]{0,40}(?:passw(?:or)?d|passphrase|secret|api_?key|token|credentials?|securestring)"""
        rb"""(?:\(\s{0,3}| )\\?["'])([^"'\\\s]{6,})(\\?["'])""",
        _given,
    ),
    _Shape(
        rb"""(?i)(\b[a-z0-9_.]{0,40}(?:auth|credentials?|login|connect|authenticate|create_?user|add_?user|set_?user)"""
        rb"""\\?["']?\s{0,2}[=(:]\s{0,2}[(\[]?\s{0,2}\\?["'][^"'\n\\]{1,64}\\?["']\s{0,3},\s{0,3}\\?["'])([^"'\\\n]{6,})(\\?["'])""",
        _given,
    ),
    _Shape(
        rb"""(?i)(\b(?:use|enter|type|try|with|set|using)\s{1,3}["'`]?)([^\s"'`]{6,})(["'`]?\s{1,3}(?:as|for|in|into)\s{1,3}"""
        rb"""(?:the\s|your\s|my\s|our\s|its\s|a\s|new\s){0,2}(?:[a-z]{1,20}\s)?(?:password|passphrase|passcode|token|secret|api key|pin)\b)""",
        _given,
    ),
    _Shape(rb"(" + _USER + rb")" + _WORD_VALUE, _password_of, _LOGIN),
    _Shape(rb"""(\s-(?:p|P|pw|W|passwd)[ =]?)('[^'\s]{6,64}'|"[^"\s]{6,64}")""", _password_of, _LOGIN),
    _Shape(rb"""(\s-(?:u|U|a|A|C)[ =]?["'][A-Za-z][A-Za-z0-9._@-]{0,40}:)([^"'\s/]{6,64})""", _password_of, _LOGIN),
    _Shape(
        rb"()("
        + SECRET_NAME
        + rb""")(\\?["'`)\]]{0,3}\s{0,3}(?:\?\?=?|\|\|=?|\bor\b|:-)\s{0,3}\\?["'`])([^"'`\n\\]{4,})""",
        _under_name,
        _NAMED,
    ),
    _Shape(
        rb"()(" + SECRET_NAME + rb""")(\\?["']?\s{0,3}[:=]\s{0,3}\[\s{0,3}\\?["'])([^"'\n\\]{4,})""",
        _under_name,
        _NAMED,
        b"[",
    ),
    _Shape(
        rb"("
        + SECRET_NAME
        + rb"""\\?["']?\s{0,3}[:=]\s{0,3}(?:new\s)?[A-Za-z_.:]{1,60}\((?:[A-Za-z_.:]{1,60}\()?\s{0,3}\\?["'])"""
        rb"""([^"'\s\\]{6,})(\\?["'])""",
        _given,
        _NAMED,
        b"(",
    ),
    _Shape(
        rb"(?i)(\b(?:jwt\.(?:sign|verify|encode|decode)|jsonwebtoken\.(?:sign|verify)|createhmac|hmac\.new|create(?:de)?cipher(?:iv)?|"
        rb"fernet|symmetricsecuritykey|secretkeyspec|(?:timed)?serializer|bcrypt\.hash(?:sync|pw)?|compare(?:sync)?)\("
        rb"""[^()"'\n]{0,80}(?:\\?["'][a-z0-9-]{1,20}\\?["']\s{0,2},\s{0,2})?[a-z_.]{0,40}\(?\s{0,2}\\?["'])([^"'\s\\]{6,})(\\?["'])""",
        _given,
    ),
    _Shape(
        rb"("
        + SECRET_NAME
        + rb"`?[ \t]{0,3}\|[ \t]{0,3}(?:[^|\n]{1,60}\|[ \t]{0,3})?`?)([^\s|`]{6,})(`?[ \t]{0,3}(?:\||$|\n))",
        _given,
        _NAMED,
        b"|",
    ),
    _Shape(rb"(?i)(\b" + _SPOKEN_NAMES + _SPOKEN_VERB + rb""")(["'`]?[^\s"'`,;]{4,})""", _spoken, _NAMED),
    _Shape(
        r"((?:пароль|密码|密碼|口令|パスワード|暗証番号|비밀번호|contraseña|hasło|lösenord|mot de passe)\\?[\"']?\s{0,3}[:=]"
        r"\s{0,3})".encode()
        + _VALUE,
        _argument,
    ),
    _Shape(
        rb"(?i)(\b(?:key|sid|seed|salt|serial|licen[sc]e|signature|hmac)(?: (?:for|to|of|on) [^\s:=]{1,30}){0,2} (?:is|was):?\s{1,3}[\"'`]?)([A-Za-z0-9+/_=-]{16,})",
        _spoken_key,
    ),
    _Shape(rb"""(?i)(\b(?:password|passphrase|passwd|identified by)\s{1,3}\\?["'])([^\s"'\\]{4,})""", _after),
    _Shape(
        rb"(?i)(\b(?:creds|credentials|logins?|zugangsdaten)\b[^\n:]{0,40}:\s{0,3}[^\s/]+\s{0,2}/\s{0,2})"
        rb"([^\s,;]{6,})",
        _spoken,
    ),
    _Shape(
        rb"(?i)(\b(?:verification|security|one-time|login|confirmation|authentication|sign-in|access) code"
        rb"(?: is|:)\s{1,3})([0-9A-Z-]{4,10})\b",
        _unless_words,
    ),
    _Shape(
        rb"(?i)(\b(?:otp|totp|2fa|mfa|one-time (?:password|passcode|pin|code)|(?:"
        + CODE_KINDS.encode()
        + rb")[ _-]code|passcode)"
        rb"(?: (?:code|token|pin|number))?(?: for [^\s]{1,30})?(?: is|:|=|,)?:?\s{1,3}[\"'`]?)([0-9]{6,8}|[0-9]{3}[ -][0-9]{3})\b",
        _after,
    ),
    _Shape(
        rb"(?i)(\b)([0-9]{4,8}|[0-9]{3}[ -][0-9]{3}|[A-Z]-[0-9]{5,6})( is (?:your|the|my) (?:[a-z0-9-]{1,20} ){0,4}"
        rb"(?:code|otp|pin|passcode|password)\b)",
        _piped,
    ),
    _Shape(rb"(?i)(\btan(?: is|:)\s{1,3})([0-9]{6})\b", _after),
    _Shape(rb"""(?i)(type=\\?["']password\\?["'][^<>]{0,120}\svalue=\\?["'])([^"'<>\\{$]+)""", _after),
    _Shape(rb"""(?i)(\bset password for [^\s=]{1,80}\s{0,3}=\s{0,3}\\?["'])([^"'\\\n]{4,})""", _after),
    _Shape(rb"""(assword[^\n]{0,80}\bsend (?:-- )?\\{0,3}["'])([^"'\\\n]{4,})(\\{1,3}[rn])""", _piped),
    _Shape(rb"(?i)(:pserver:[^\s:@]{1,64}:)([^\s@]{4,})@", _login),
    _Shape(
        rb"(?i)(\bnickserv[\"']?\s{1,3}:?(?:identify|register|ghost|recover|regain)\s{1,3}(?:[^\s\"']{1,30}\s)?)([^\s\"']{4,})",
        _spoken,
    ),
    _Shape(rb"(\bAUTH (?:PLAIN|LOGIN|XOAUTH2)\s{1,3})([A-Za-z0-9+/=]{8,})", _unless_words),
    _Shape(rb"(?m)(^[A-Za-z0-9]{1,8} LOGIN [^\s]{1,64} )([^\s]{4,})", _spoken),
    _Shape(rb"(?i)(\br[ow]community6?\s{1,3})([^\s]{4,})", _after),
    _Shape(rb"(?i)(\bcom2sec6?\s{1,3}[^\s]{1,64}\s{1,3}[^\s]{1,64}\s{1,3})([^\s]{4,})", _after),
    _Shape(rb"(\b(?:passwd|password|psksecret|passphrase) ENC )([^\s]{4,})", _after),
    _Shape(rb"(\b(?:isakmp key|message-digest-key [0-9]{1,3} md5)\s{1,3}(?:[067] )?)([^\s]{4,})", _after),
    _Shape(
        rb"(?i)(\b(?:pre-shared-key|authentication-key) (?:ascii-text|hexadecimal)?\s{0,3}\\?[\"'])([^\s\"'\\]{4,})",
        _after,
    ),
    _Shape(
        rb"(?i)(\bform-data; name=\\?[\"'][^\"'\n]{0,60}(?:passw|secret|token|otp|\bpw)[^\"'\n]{0,60}[\"'](?:\\r|\\n|\s){2,6})([^\s\\]{4,})",
        _after,
    ),
    _Shape(_START.encode() + rb"((?:[0-9]{6}-){7}[0-9]{6})\b", _after, _FORMED),
    _Shape(
        rb"(?i)(\b(?:pac|shared|server-private|radius|tacacs|wpa-psk|ascii|authentication) key [0-8] )([^\s]{4,})",
        _spoken,
    ),
    _Shape(_START.encode() + rb"([a-z][a-z0-9]{1,11}\.)([A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,})", _both_random, _RUN),
    _Shape(rb"(?i)(\b(?:recovery|backup|scratch) codes?(?: are|:)\s{1,3})([a-z0-9 ,-]{8,})", _unless_words),
    _Shape(rb"(?i)(\b(?:seed|recovery|mnemonic) phrase(?: is|:)\s{1,3})([a-z]+(?: [a-z]+){7,})", _after),
    _Shape(rb"(?i)(\bset-?up key\b[^\n:]{0,40}(?: is|:)\s{1,3})([A-Z2-7 ]{16,})", _after),
    _Shape(
        rb"(?m)(^[A-Za-z0-9.*-]+:[0-9*]{1,5}:[A-Za-z_*][A-Za-z0-9_-]*:[A-Za-z0-9_*-]+:)([^\s:]{4,})$", _after, _FORMED
    ),
    _Shape(
        rb"""()(""" + SECRET_NAME + rb""")(["']\s{0,3}\{[^{}]{0,200}?\b(?:default|value)\s{0,3}=\s{0,3})""" + _VALUE,
        _under_name,
        needs=b"{",
    ),
    _Shape(rb"(" + SECRET_NAME + rb""")(\\?["']\s{0,3}:\s{0,3}\{)([^{}]{8,})""", _inside, _NAMED, b"{"),
    _Shape(
        rb"""(?i)((?:selector|element|locator)\\?["']\s{0,3}:\s{0,3}\\?["'][^"'\n]{0,60}(?:passw|passphrase|otp)"""
        rb"""[^"'\n]{0,60}["'],\s{0,5}\\?["'](?:text|value|content)\\?["']\s{0,3}:\s{0,3})""" + _VALUE,
        _argument,
    ),
    _Shape(_START.encode() + rb"([A-Z]{2}[A-Z0-9]{9}[A-Z0-9]{9})\b", _access_key, _RUN),
    _Shape(_START.encode() + rb"([A-Z]{3,8}_[A-Z0-9_-]*[a-z][A-Za-z0-9_-]{16,})", _random_word, _FORMED),
    _Shape(_START.encode() + rb"((?:[A-Za-z0-9+/]{10}){4}[A-Za-z0-9+/]*={1,2})", _random_word, _FORMED),
    _Shape(_START.encode() + rb"((?:[A-Za-z0-9]{16}){2}[A-Za-z0-9]*(?:[_.+/~-][A-Za-z0-9]+)*=*)", _random_word, _RUN),
    _Shape(  # a capital after a digit: paths of folders have none
        _START.encode() + rb"([A-Za-z0-9+/]{0,16}[0-9][A-Z][A-Za-z0-9+/]{22,}={0,2})", _random_word, _FORMED
    ),
    _Shape(
        rb"()([A-Za-z0-9_.-]*(?i:"
        + RANDOM_STEMS.encode()
        + rb")[_-]?[0-9]{0,3})"
        + _BETWEEN
        + rb"""(?:\\?["'])?([A-Za-z0-9+/=_.~%-]{16,})""",
        _under_random_name,
    ),
    _Shape(
        rb"(?i)(/(?:(?:web)?hooks?|reset(?:[_-]password)?|password[_-]reset|verify|confirm|activate|magic|invite|invitations?|"
        rb"unsubscribe|login|auth|sso|feeds?|private|share|ical|token)[/-](?:[a-z0-9-]{1,24}/)?)([A-Za-z0-9_-]{16,})()",
        _if_random,
        needs=b"/",
    ),
    _Shape(
        rb"(?i)(\b[a-z_.-]{0,24}(?:sess(?:ion)?_?id|sessid|\.sid|_session)=)([A-Za-z0-9%._+/=-]{16,})()",
        _if_random,
        needs=b"=",
    ),
    _Shape(
        rb"(\{(?:S?SHA(?:256|384|512)?|CRYPT|S?MD5|ARGON2|PBKDF2[A-Z0-9-]*)\})([A-Za-z0-9+/=$.]{16,})", _after, _FORMED
    ),
    _Shape(
        rb"(\b(?:pbkdf2[_:-]sha(?:1|256|512)|scrypt|bcrypt(?:_sha256)?|argon2(?:id|i|d)?|SCRAM-SHA-(?:1|256))"
        rb"[$:][^\s$]{1,60}\$)([^\s\"',;]{16,})",
        _after,
    ),
    _Shape(rb"(?i)(\b[a-f0-9]{32}:)([a-f0-9]{32})(:::)", _piped),
    _Shape(
        _START.encode() + rb"((?:4[0-9]{3}|5[1-5][0-9]{2}|2[2-7][0-9]{2}|6(?:011|5[0-9]{2}))(?:[ -]?[0-9]{4}){3}"
        rb"|3[47][0-9]{2}[ -]?[0-9]{6}[ -]?[0-9]{5})\b",
        _card,
        _FORMED,
    ),
    _Shape(_START.encode() + rb"([a-f0-9]{16,}:[a-f0-9]{32,})\b", _after, _FORMED),
    _Shape(rb"(" + _MARKED + rb")([:_./+~=-][A-Za-z0-9_+/=.~-]{6,})", _clinging),
    _Shape(rb"()([A-Za-z0-9+/_-]{16,}[+/_.-])(" + _MARKED + rb")", _if_random),
)


def _shape_of(provider: Provider) -> _Shape:
    return _Shape((f"{_START}({provider.pattern})").encode(), _after, None if provider.has_prefix else _FORMED)


def _replace(replace: Replace, mark: Mark, match: Any) -> bytes:
    return replace(_Match(match), mark)


def compile_linear(pattern: bytes, *, capture: bool = True) -> Any:
    """Return a pattern of bytes that RE2 matches in linear time."""
    return re2.compile(pattern, options=_options(capture=capture))


def _options(*, capture: bool) -> Any:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1  # search the bytes directly: nothing is decoded
    options.log_errors = False
    options.max_mem = 64 << 20  # with too little memory for its automaton RE2 becomes slow
    options.never_capture = not capture
    return options


def _set_of(patterns: Iterable[bytes]) -> Any:
    """Return a function that finds, in one search, the numbers of the patterns that match a text."""
    found = re2.Set.SearchSet(_options(capture=False))
    for pattern in patterns:
        found.Add(pattern)
    found.Compile()
    return found._set.Match  # noqa: SLF001 - of each text; the wrapper only encodes what is no bytes


def _filter_of(patterns: Iterable[bytes]) -> Any:
    """Return a function of a text and True that finds, by literals, the numbers of the patterns that may match it."""
    found = re2.Filter()
    for pattern in patterns:
        found.Add(pattern, _options(capture=False))
    found.Compile()
    return found._filter.Match  # noqa: SLF001 - as above


_KEY_BEGINS: Final = _FIRST[0].pattern.partition(b".*?")[0]
"""The beginning of a private key, which is enough to find it in linear time; the key may continue to the end of the
text."""
_ASSIGNMENT: Final = rb"(" + SECRET_NAME + rb")" + _BETWEEN + rb"|(?:^|[\s\"'])(-{1,2}" + SECRET_NAME + rb")(\s+)"
"""A name, and the separator between it and its value."""


_ANCHOR: Final = re.compile(rb"[\^$]|\\.|\[(?:\\.|[^\]\\])*\]?", re.DOTALL)
"""An anchor; an escaped character and a class, which are none."""
_REPEATED: Final = re.compile(rb"\{([0-9]+)(,?)([0-9]*)\}")
_ENOUGH: Final = 16
"""Repetitions that are counted to detect a possible secret: each one makes the automaton larger."""


def _looser(pattern: bytes) -> bytes:
    """Return a pattern with fewer states that matches wherever ``pattern`` does, also within a line of JSON.

    It ignores the ends of names and values. Where ``pattern`` wants the beginning or the end of a line, the quote of a
    JSON string serves too, and a carriage return, which stands for an escaped newline there.
    """
    for opening in (b"(", b"()("):
        if pattern.startswith(opening + SECRET_NAME):
            pattern = opening + SECRET_NAME.removeprefix(NAME_CHARACTERS) + pattern.removeprefix(opening + SECRET_NAME)
    pattern = pattern.removesuffix(_VALUE).removesuffix(_WORD_VALUE).removesuffix(_NEW_VALUE)
    return _REPEATED.sub(_fewer, _anchored_in_json(pattern))


def _anchored_in_json(pattern: bytes) -> bytes:
    """Return a pattern whose anchors match at a quote and at a carriage return too."""
    return _ANCHOR.sub(lambda found: rb'(?:%b|["\r])' % found[0] if found[0] in b"^$" else found[0], pattern)


def _fewer(match: re.Match[bytes]) -> bytes:
    return match[0] if int(match[3] or match[1]) <= _ENOUGH else b"{%d,}" % min(int(match[1]), _ENOUGH)


@cache
def _filter_of_parts(parts: tuple[tuple[bytes, Replace], ...]) -> Any:
    return _filter_of(pattern for pattern, _ in parts)


@cache
def _names() -> Any:
    return compile_linear(_ASSIGNMENT)


@cache
def _values() -> Any:
    return compile_linear(_VALUE)


def marker(secret: bytes) -> bytes:
    """Return the replacement of a secret in a text; text that was redacted already stays."""
    return secret if _IS_MARKED.fullmatch(secret) else MARKER.encode()


SHORT: Final = 256
"""Longest plain text that is remembered, in characters: paths, channels and results recur."""
_REMEMBERED: Final = 4096


class Redactor:
    """Replace the secrets in texts. ``providers`` are the rows of the table that it knows.

    Most texts hold no secret, so the first question is which shapes a text may have. For patterns with a literal of
    three letters, RE2 answers it with one search for all literals; each other shape names a clue. Only the shapes that
    a text may have are searched for, each by itself: one automaton of all shapes would need a new state, of 20 us, for
    nearly every byte that it has not seen before.
    """

    def __init__(self, providers: Iterable[Provider] = PROVIDERS) -> None:
        self._shapes = (*_FIRST, *map(_shape_of, providers), *_SHAPES)
        patterns = (_KEY_BEGINS, *(one.pattern for one in self._shapes[1:]), _ASSIGNMENT)
        self.patterns: tuple[bytes, ...] = tuple(map(_looser, patterns))
        """Patterns that together match every text with a secret: at least one matches. Each is linear by itself."""

        clues = (*(one.clue for one in self._shapes), _NAMED)
        self._by_clue = {clue: [at for at, named in enumerate(clues) if named == clue] for clue in chain(*CLUES)}
        self.found_by_clue: tuple[int, ...] = tuple(at for at, named in enumerate(clues) if named is not None)
        """Numbers of the patterns that RE2 cannot find by a literal."""

        self._needs = (*(one.needs for one in self._shapes), b"")
        self._by_literal = [at for at, named in enumerate(clues) if named is None]
        self.plain: set[str] = {""}
        """Short texts without a secret, and the empty one. Bounded."""

    @cached_property
    def _literals(self) -> Any:
        """Find the patterns without a clue that may match a text, by the literals in it."""
        return _filter_of(self.patterns[at] for at in self._by_literal)

    @cached_property
    def _searches(self) -> list[Any]:
        """The patterns, each compiled when a text may match it for the first time."""
        return [None] * len(self.patterns)

    def with_literal(self, data: bytes) -> list[int]:
        """Return the numbers of the patterns whose literals and signs are in ``data``, in ascending order."""
        there = self._literals(data, True)
        return [number for at in there if self._needs[number := self._by_literal[at]] in data] if there else []

    @cached_property
    def clues(self) -> tuple[tuple[Any, list[int]], ...]:
        """The clues, each with the numbers of the patterns that may match where the clue does."""
        return tuple((compile_linear(clue, capture=False), there) for clue, there in self._by_clue.items())

    @cached_property
    def _clue_sets(self) -> list[tuple[Callable[[bytes], Any], list[list[int]]]]:
        """The clues for searches that need no position. One automaton of all clues would need many times the states."""
        return [(_set_of(group), [self._by_clue[clue] for clue in group]) for group in CLUES]

    def possible(self, data: bytes) -> list[int]:
        """Return the numbers of the patterns that may match, in ascending order. This is cheap if there are none."""
        numbers = self.with_literal(data)
        for clues_in, there in self._clue_sets:
            for clue in clues_in(data):
                numbers += [number for number in there[clue] if self._needs[number] in data]
        return sorted(numbers) if numbers else numbers

    def search(self, number: int, data: bytes, at: int = 0) -> Any:
        """Return the first match of the pattern ``number`` from byte ``at``, None if there is none."""
        pattern = self._searches[number]
        if pattern is None:
            pattern = self._searches[number] = compile_linear(self.patterns[number], capture=False)
        return pattern.search(data, at)

    def is_plain(self, *texts: str) -> bool:
        """Return True if texts are valid Unicode and show no secret. One search covers all that is not remembered."""
        if self.plain.issuperset(texts):
            return True
        text = "\n".join(texts)
        try:
            data = text.encode()
        except UnicodeEncodeError:
            return False
        bare = undisguised(text) if data.translate(None, UNDISGUISED) else text
        for read in (data,) if bare == text else (data, bare.encode()):
            for number in self.possible(read):
                if self.search(number, read):
                    return False
        self._remember(*texts)
        return True

    def redact(self, text: str, mark: Mark = marker) -> str:
        """Return ``text`` with each secret replaced by what ``mark`` returns for it.

        Lone surrogates become U+FFFD. Redacting a redacted text does not change it. A text whose secret is disguised
        (by invisible characters or full-width letters) is returned without the disguise. Linear in the length of the
        text.
        """
        if text in self.plain:
            return text
        try:
            data = text.encode()
        except UnicodeEncodeError:
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            data = text.encode()
        shown = self._redacted(data, mark)
        bare = undisguised(shown if shown is not None else text)
        if bare is not text and bare != shown and (more := self._redacted(bare.encode(), mark)) is not None:
            return more
        if shown is not None:
            return shown
        if bare is text:
            self._remember(text)
        return text

    def _remember(self, *texts: str) -> None:
        """Remember that texts are plain, those that are short."""
        if len(self.plain) >= _REMEMBERED:
            self.plain.intersection_update(("",))
        self.plain.update(compress(texts, map(SHORT.__ge__, map(len, texts))))

    @cached_property
    def _replacements(self) -> dict[tuple[int, int], Any]:
        """The whole patterns with their groups, by number and part, compiled when a text first matches."""
        return {}

    def replaced(self, number: int, data: bytes, mark: Mark) -> bytes:
        """Return ``data`` without the secrets that the pattern ``number`` finds."""
        if number == len(self._shapes):
            return self._without_assigned(data, mark)
        shape = self._shapes[number]
        there = _filter_of_parts(shape.parts)(data, True) if shape.parts else (0,)
        for part in there:
            pattern, replace = shape.parts[part] if shape.parts else (shape.pattern, shape.replace)
            compiled = self._replacements.get((number, part))
            if compiled is None:
                compiled = self._replacements[number, part] = compile_linear(pattern)
            data = compiled.sub(partial(_replace, replace, mark), data)
        return data

    def _redacted(self, data: bytes, mark: Mark) -> str | None:
        """Return the text without its secrets, None if it has none."""
        first = data
        for _ in range(_PASSES):
            before = data
            there = self.possible(data)
            if not there:
                break
            for number in there:
                if self.search(number, data):
                    data = self.replaced(number, data, mark)
            if data == before:
                break
        return None if data == first else data.decode("utf-8", "replace")

    def _without_assigned(self, data: bytes, mark: Mark) -> bytes:
        """Replace the values under secret names.

        After a harmless name the search continues at the value, because it may contain a secret
        (``TOKEN_URL=https://x?client_secret=X``).
        """
        parts: list[bytes] = []
        at = kept = 0
        while (found := _names().search(data, at)) is not None:
            match = _Match(found)
            name, between = (match[1], match[2]) if match[1] else (match[3], match[4])
            at = match.end()
            if (value := _values().match(data, at)) is None:
                continue
            whole: bytes = value.group()
            bare = _bare(whole)[1]
            if not _is_secret(name, bare) or (not between.strip() and bare[:1] == b"-"):
                continue
            parts += (data[kept:at], _quoted(whole, mark))
            at = kept = at + len(whole)
        if not parts:
            return data
        parts.append(data[kept:])
        return b"".join(parts)


REDACTOR: Final = Redactor()
is_plain = REDACTOR.is_plain


def redact_text(text: str) -> str:
    """Return ``text`` with each secret that its shape or its name reveals replaced by ``MARKER``."""
    return REDACTOR.redact(text)
