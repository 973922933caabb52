"""Finds secrets inside text: by the shape that their provider gave them, and by what stands before them.

Every pattern is matched by RE2 on bytes: time grows linearly with the text, whatever an agent writes. One automaton of
all shapes tells at once that a text holds none, which is the rule.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache, cached_property
from typing import Any, Final, NamedTuple

import re2

from callosum.redact.disguise import undisguised
from callosum.redact.names import KEY_KINDS, NAME_LIMIT, SECRET_NAME, Cover, cover
from callosum.redact.options import OPTIONS
from callosum.redact.providers import PROVIDERS, WEBHOOKS, Provider

MARKER: Final = "[redacted]"
"""What stands in place of a secret."""

Mark = Callable[[bytes], bytes]
"""Returns what takes the place of a secret. What it returns must match ``_MARKED``."""

_MARKED: Final = rb"\[redacted(?::[0-9a-f]{8})?\]"
"""What ``MARKER`` and the marks of ``SecretDigests`` look like."""
_IS_MARKED: Final = re.compile(_MARKED)
_DIGIT: Final = re.compile(rb"[0-9]")
_SURELY_NO_WORD: Final = 24
"""From this length on, what follows ``Bearer`` is no English word, digits or not."""
_HARMLESS: Final = re.compile(
    rb"str|string|bytes|bool|int|any|none|null|true|false|undefined|optional\W.*|\*+|=+|"
    rb"os\.environ.*|os\.getenv.*|process\.env.*|" + _MARKED,
    re.IGNORECASE,
)
"""Values that give nothing away: types, nothing at all, and references to the environment."""
_VARIABLE: Final = re.compile(rb"\$\{?[A-Z_][A-Z0-9_]*\}?|\$\(.*|\$\{\{.*")


class _Match:
    """The groups of a match, typed: the library that finds them has no types."""

    __slots__ = ("_match",)

    def __init__(self, match: Any) -> None:
        self._match = match

    def __getitem__(self, group: int) -> bytes:
        found: bytes | None = self._match.group(group)
        return found or b""

    def start(self, group: int) -> int:
        found: int = self._match.start(group)
        return found

    def end(self, group: int = 0) -> int:
        found: int = self._match.end(group)
        return found


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
    """A value after a command's own option, perhaps in quotes."""
    return match[1] + _quoted(match[2], mark)


def _piped(match: _Match, mark: Mark) -> bytes:
    return match[1] + _quoted(match[2], mark) + match[3]


def _under_name(match: _Match, mark: Mark) -> bytes:
    """What stands before, a name, what stands between, and a value."""
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
    """Hide a long value with digits behind a bare ``key``, which often means something else than a secret."""
    return match[1] + mark(match[2]) if len(_DIGIT.findall(match[2])) > 1 else match[0]


def _inside(match: _Match, mark: Mark) -> bytes:
    """Hide the values with a digit in an object under a secret's name: ``"cookies": {"sid": "X"}``."""
    if _under(match[1]) is not Cover.ALL:
        return match[0]
    inner = _MEMBER.sub(lambda member: member[1] + mark(member[2]), match[3])
    return match[1] + match[2] + inner


def _under(name: bytes) -> Cover:
    return cover(name[-NAME_LIMIT:].decode("ascii", "replace"))


def _random_word(match: _Match, mark: Mark) -> bytes:
    """Hide a long word of letters in both cases and digits, in which no part reads like a word."""
    word = match[2]
    if word in (word.lower(), word.upper()) or len(_DIGIT.findall(word)) < len(word) // 16:
        return match[0]
    if max(map(len, _WORDS.findall(word)), default=0) > _LONGEST_WORD or word.startswith(_DATA):
        return match[0]
    return match[1] + mark(word)


def _access_key(match: _Match, mark: Mark) -> bytes:
    """Hide an identifier of twenty capitals and digits, as several clouds make them."""
    return match[1] + mark(match[2]) if len(_DIGIT.findall(match[2])) > 1 else match[0]


_NO_WORD: Final = re.compile(rb"[0-9!@#$%^&*+=]|[a-z][A-Z]|^(?=.{14})[^-_.]+[-_.][^-_.]+[-_.][^-_.]")
"""What ordinary words do not have: digits, signs, a capital inside, or three long parts."""
_MEMBER: Final = re.compile(rb"""(:\s{0,3}\\?["'])([^"'\\]*[0-9][^"'\\]{5,}|[^"'\\]{5,}[0-9][^"'\\]*)""")
_DATA: Final = (b"iVBORw0KGgo", b"AAMk", b"JVBERi0")
"""Beginnings of pictures, documents and mail identifiers in base64."""


def _random_tail(match: _Match, mark: Mark) -> bytes:
    """A long tail behind a prefix is a secret if it looks random: nobody writes words with digits and case mixed so."""
    prefix, tail = match[2], match[3]
    digits = len(_DIGIT.findall(tail))
    mixed = tail != tail.lower() and tail != tail.upper()
    if _is_short_prefix(prefix) and digits > _MANY_DIGITS:
        return match[1] + mark(prefix + tail)
    if digits < (2 if _TELLING.search(prefix.lower()) else 3) or not (mixed or _TELLING.search(prefix.lower())):
        return match[0]
    if max(map(len, _WORDS.findall(tail)), default=0) > _LONGEST_WORD:
        return match[0]
    return match[1] + mark(prefix + tail)


def _is_short_prefix(prefix: bytes) -> bool:
    """Return whether a prefix looks like a provider's: a few letters and an underscore, and no word for a thing."""
    return prefix[-1:] == b"_" and 3 <= len(prefix) <= _SHORT_PREFIX and prefix[:-1].lower() not in _THINGS


_SHORT_PREFIX: Final = 5
_MANY_DIGITS: Final = 4
_THINGS: Final = frozenset(
    b"id img pic doc md5 sha sha1 file msg run req res log tmp obj key row job task call node item page user org team "
    b"hash blob chat conv item step tag ver rev ref uid evt".split()
)
"""Words before an identifier that is no secret."""
_TELLING: Final = re.compile(rb"(?:api|pat|key|tok|tkn|token|sk|secret|live|prod|auth|cred)[0-9]{0,2}[_.-]")
_WORDS: Final = re.compile(rb"[A-Za-z][a-z]+")
_LONGEST_WORD: Final = 11
"""A run of letters in one case that is longer is a word, not chance."""


def _bare(value: bytes) -> tuple[bytes, bytes]:
    """Return the quote that a value begins with, if any, and the value without its quotes."""
    quote = value[: 2 if value[:1] == b"\\" else 1]
    if quote not in (b'"', b"'", b'\\"', b"\\'"):
        quote = b""
    return quote, value.removeprefix(quote).removesuffix(quote)


def _quoted(value: bytes, mark: Mark) -> bytes:
    """Return the mark of a value in the quotes that the value had."""
    quote, bare = _bare(value)
    closed = len(value) > len(quote) and value.endswith(quote)
    return quote + mark(bare) + (quote if closed else b"")


def _is_secret(name: bytes, bare: bytes) -> bool:
    """Tell whether a value that stands under a name gives something away."""
    hide = cover(name[-NAME_LIMIT:].decode("ascii", "replace"))
    if not bare or hide is Cover.NOTHING or (hide is Cover.STRINGS and bare.isdigit()):
        return False
    return not (_HARMLESS.fullmatch(bare) or _VARIABLE.fullmatch(bare))


class _Shape(NamedTuple):
    """A pattern of bytes, and what to put in place of a match."""

    pattern: bytes
    replace: Replace


_VALUE: Final = (
    rb"(" + _MARKED + rb"""|\\"[^"\\\n]*(?:\\")?|"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?"""
    rb"""|\$\{\{[^}\n]*\}{0,2}|\$\{[^}\s]*\}?|\$\([^)\n]*\)?|[^\s,;&"'{}()\[\]<>]+)"""
)
_WORD_VALUE: Final = rb"(" + _MARKED + rb"""|\\?'[^'\n\\]*\\?'?|\\?"[^"\n\\]*\\?"?|[^\s"'\\-][^\s"'\\]*)"""
"""The value of an option on a command line."""
_BETWEEN: Final = rb"""(\\?["']?\]?\s{0,3}(?::=|=>|==|[:=])\s{0,3}|\\?["']\s{0,3},\s{0,3})"""
"""What stands between a name and its value: ``: ``, ``" => ``, ``", "``."""

_PASSES: Final = 4
"""How often a text is gone over at most: what stands in place of one secret can bring the ends of another together."""
_START: Final = r"(\\[nrt]|%[0-9A-Fa-f]{2}|_|\b)"
"""Where a word begins, also behind an escaped break: text within text, as JSON has it."""

_SECRET_PARAMS: Final = (
    rb"(?:sig|signature|sharedaccesssignature|x-(?:amz|goog)-(?:signature|credential|security-token))"
)
"""Parameters of a URL that hold a signature."""
_UNTYPED_PARAMS: Final = rb"(?:key|code|hash|auth|sid|session|session_id|sessionid|ticket|k|t)"
"""Parameters of a URL that hold a secret if their value is long and has a digit."""


_SPOKEN_NAMES: Final = (
    r"(?:password|passwort|kennwort|passcode|passphrase|contraseña|mot de passe|senha|wachtwoord|lösenord|heslo|пароль|"
    r"secret|token|pw|pwd|(?:" + KEY_KINDS + r")[ _-]key)"
).encode()
"""Words for a secret in sentences."""
_SPOKEN_VERB: Final = (
    r"(?:(?: (?:for|to|of|on|für) [^\s:=]{1,30}){0,2} (?:is|was|ist|lautet|es|est|é|è)(?: now)?:?\s{1,3}"
    r"|\s{0,2}(?:→|->|:)\s{1,3}| to )"
).encode()
"""What stands between the word for a secret and the secret."""


def _option(programs: bytes, option: bytes) -> bytes:
    return rb"\b(?:" + programs + rb")\b(?:[^\n|;&]*?\s|\s)" + option


_FIRST: Final = (
    _Shape(
        rb"(?s)-----BEGIN[A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----.*?"
        rb"(?:-----END[A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----|\z)",
        _all,
    ),
)


_SHAPES: Final = (
    _Shape(_START.encode() + rb"((?:sk|xai|pypi|nvapi)-[A-Za-z0-9_-]{16,})", _unless_words),
    _Shape(
        _START.encode() + rb"((?i:(?:[a-z0-9]{1,12}[_.-]){0,3}[a-z0-9]{0,10}"
        rb"(?:api|pat|key|tok|tkn|token|sk|secret|live|prod|auth|cred))[0-9]{0,2}[_.-])([A-Za-z0-9_-]{20,})",
        _random_tail,
    ),
    _Shape(
        _START.encode() + rb"([A-Za-z][A-Za-z0-9]{0,15}(?:[_-][A-Za-z0-9]{1,12}){0,3}[_-])([A-Za-z0-9]{30,})",
        _random_tail,
    ),
    _Shape(("((?:" + "|".join(WEBHOOKS) + "))").encode() + rb"([A-Za-z0-9_-]{8,}(?:/[A-Za-z0-9_-]+)*)", _after),
    _Shape(rb"""(://[^\s/:@?#"'<>]*:)([^\s/?"'<>]+)@""", _login),
    _Shape(rb"""(://)([^\s/:@?#"'<>]{20,})@""", _login),
    _Shape(
        rb"""(?i)(\b(?:(?:proxy-)?authorization|(?:set-)?cookie)\\?["']?\s*:\s*\\?["']?)"""
        rb"(" + _MARKED + rb"""|(?:""" + _MARKED + rb"""|[^\r\n"'\\])+)""",
        _after,
    ),
    _Shape(rb"(?i)(\b(?:bearer|basic)\s+)([A-Za-z0-9._~+/=-]{8,})", _after_scheme),
    _Shape(rb"(?i)([?&;#]" + _SECRET_PARAMS + rb"""=)([^\s&#"'<>]{4,})""", _after),
    _Shape(rb"(?i)([?&#]" + _UNTYPED_PARAMS + rb"""=)([A-Za-z0-9._~%+/-]{16,}=*)""", _unless_words),
    _Shape(
        rb"(" + b"|".join(_option(programs, option) for programs, option in OPTIONS) + rb")" + _WORD_VALUE, _argument
    ),
    _Shape(rb"""(\becho\s+(?:-n\s+)?)(\\?["']?[^\s"'|]+\\?["']?)(\s*\|\s*sudo\s+(?:-\w+\s+)*-S)""", _piped),
    _Shape(rb"""(\bmachine\s+\S+\s+login\s+\S+\s+password\s+)(\S+)""", _after),
    _Shape(rb"(\$(?:1|5|6|y|2[abxy]|apr1|argon2i?d?|scrypt|pbkdf2-sha256)\$[^\s:$\"',]*\$)([^\s:\"',]{12,})", _after),
    _Shape(
        rb"(<(?:[A-Za-z0-9_.-]+:)?)("
        + SECRET_NAME
        + rb")((?:\s[^<>]*)?>\s{0,3}(?:<!\[CDATA\[)?)("
        + _MARKED
        + rb"|[^<>]+)",
        _under_name,
    ),
    _Shape(rb"(<key>)(" + SECRET_NAME + rb")(</key>\s{0,20}<string>)(" + _MARKED + rb"|[^<>]+)", _under_name),
    _Shape(
        rb"""((?i:name|key|header|param)\\?["']?\s{0,3}[:=]\s{0,3}\\?["']?)(""" + SECRET_NAME + rb")"
        rb"""(\\?["']?\s{0,3},?\s{0,20}\\?["']?(?i:value|secret)\\?["']?\s{0,3}[:=]\s{0,3})""" + _VALUE,
        _under_name,
    ),
    _Shape(rb"""(\\?"d\\?"\s{0,3}:\s{0,3}\\?")([A-Za-z0-9_-]{40,})""", _after),
    _Shape(rb"(?i)(\b" + _SPOKEN_NAMES + _SPOKEN_VERB + rb""")(["'`]?[^\s"'`,;]{4,})""", _spoken),
    _Shape(
        rb"(?i)(\bkey(?: (?:for|to|of|on) [^\s:=]{1,30}){0,2} (?:is|was):?\s{1,3}[\"'`]?)([A-Za-z0-9+/_=-]{16,})",
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
    _Shape(rb"(?i)(\b(?:recovery|backup|scratch) codes?(?: are|:)\s{1,3})([a-z0-9 ,-]{8,})", _unless_words),
    _Shape(rb"(?i)(\b(?:seed|recovery|mnemonic) phrase(?: is|:)\s{1,3})([a-z]+(?: [a-z]+){7,})", _after),
    _Shape(rb"(?i)(\bset-?up key\b[^\n:]{0,40}(?: is|:)\s{1,3})([A-Z2-7 ]{16,})", _after),
    _Shape(rb"(?m)(^[A-Za-z0-9.*-]+:[0-9*]{1,5}:[A-Za-z_*][A-Za-z0-9_-]*:[A-Za-z0-9_*-]+:)([^\s:]{4,})$", _after),
    _Shape(
        rb"""()(""" + SECRET_NAME + rb""")(["']\s{0,3}\{[^{}]{0,200}?\b(?:default|value)\s{0,3}=\s{0,3})""" + _VALUE,
        _under_name,
    ),
    _Shape(rb"(" + SECRET_NAME + rb""")(\\?["']\s{0,3}:\s{0,3}\{)([^{}]{8,})""", _inside),
    _Shape(
        rb"""(?i)((?:selector|element|locator)\\?["']\s{0,3}:\s{0,3}\\?["'][^"'\n]{0,60}(?:passw|passphrase|otp)"""
        rb"""[^"'\n]{0,60}["'],\s{0,5}\\?["'](?:text|value|content)\\?["']\s{0,3}:\s{0,3})""" + _VALUE,
        _argument,
    ),
    _Shape(_START.encode() + rb"([A-Z]{2}[A-Z0-9]{9}[A-Z0-9]{9})\b", _access_key),
    _Shape(_START.encode() + rb"([A-Z]{3,8}_[A-Z0-9_-]*[a-z][A-Za-z0-9_-]{16,})", _random_word),
    _Shape(_START.encode() + rb"((?:[A-Za-z0-9]{16}){3}[A-Za-z0-9]*(?:[_.+/~-][A-Za-z0-9]+)*=*)", _random_word),
    _Shape(_START.encode() + rb"((?:[A-Za-z0-9+/]{10}){4}[A-Za-z0-9+/]*={1,2})", _random_word),
    _Shape(_START.encode() + rb"([a-f0-9]{16,}:[a-f0-9]{32,})\b", _after),
)


def _table_of(providers: Iterable[Provider]) -> _Shape:
    return _Shape((_START + "(" + "|".join(one.pattern for one in providers) + ")").encode(), _after)


def compile_linear(pattern: bytes, *, capture: bool = True) -> Any:
    """Return a pattern of bytes that RE2 matches in linear time."""
    return re2.compile(pattern, options=_options(capture=capture))


def _options(*, capture: bool) -> Any:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1  # bytes as they are: nothing to decode on the way
    options.log_errors = False
    options.max_mem = 64 << 20  # with too little memory for its automaton RE2 becomes slow
    options.never_capture = not capture
    return options


_KEY_BEGINS: Final = _FIRST[0].pattern.partition(b".*?")[0]
"""A private key may continue to the end of the text. Its beginning is enough to find it, in linear time."""
_ASSIGNMENT: Final = rb"(" + SECRET_NAME + rb")" + _BETWEEN + rb"|(?:^|[\s\"'])(-{1,2}" + SECRET_NAME + rb")(\s+)"
"""A name and what stands between it and its value."""


_ODD: Final = rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\xff]"
"""Bytes of what may disguise a secret: controls, and everything that is not ASCII."""


_REPEATED: Final = re.compile(rb"\{([0-9]+)(,?)([0-9]*)\}")
_ENOUGH: Final = 16
"""Repetitions that are counted to tell that there may be a secret: each one counted makes the automaton larger."""


def _looser(match: re.Match[bytes]) -> bytes:
    return match[0] if int(match[3] or match[1]) <= _ENOUGH else b"{%d,}" % min(int(match[1]), _ENOUGH)


def _any_of(patterns: Iterable[bytes]) -> Any:
    return compile_linear(b"|".join(b"(?:" + pattern + b")" for pattern in patterns), capture=False)


@cache
def _names() -> Any:
    return compile_linear(_ASSIGNMENT)


@cache
def _values() -> Any:
    return compile_linear(_VALUE)


def marker(secret: bytes) -> bytes:
    """Return what takes the place of a secret in a text; what was redacted already stays."""
    return secret if _IS_MARKED.fullmatch(secret) else MARKER.encode()


class Redactor:
    """Replaces the secrets in texts. ``providers`` are the rows of the table that it knows."""

    def __init__(self, providers: Iterable[Provider] = PROVIDERS) -> None:
        self._shapes = (*_FIRST, _table_of(providers), *_SHAPES)
        patterns = (_KEY_BEGINS, *(one.pattern for one in self._shapes[1:]), _ASSIGNMENT)
        self.patterns: tuple[bytes, ...] = tuple(_REPEATED.sub(_looser, pattern) for pattern in patterns)
        """Patterns that together match every text with a secret: at least one matches. Each is linear by itself."""

    @cached_property
    def _any(self) -> Any:
        return _any_of(self.patterns)

    @cached_property
    def _any_or_odd(self) -> Any:
        return _any_of((*self.patterns, _ODD))

    def is_plain(self, text: str) -> bool:
        """Return whether ``text`` is valid Unicode and shows no secret, so that it can stay as it is."""
        try:
            data = text.encode()
        except UnicodeEncodeError:
            return False
        if not self._any_or_odd.search(data):
            return True
        if self._any.search(data):
            return False
        bare = undisguised(text)
        return bare is text or not self._any.search(bare.encode())

    def redact(self, text: str, mark: Mark = marker) -> str:
        """Return ``text`` with each secret replaced by what ``mark`` returns for it.

        Lone surrogates become U+FFFD. What was redacted stays as it is when it is redacted again. A text whose
        secret is disguised (by characters that nobody sees, by full-width letters) is returned without its disguise.
        Linear in the length of the text.
        """
        try:
            data = text.encode()
        except UnicodeEncodeError:
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            data = text.encode()
        if not self._any_or_odd.search(data):
            return text
        shown = self._redacted(data, mark)
        bare = undisguised(shown if shown is not None else text)
        if bare is not text and bare != shown and (more := self._redacted(bare.encode(), mark)) is not None:
            return more
        return text if shown is None else shown

    @cached_property
    def _compiled(self) -> tuple[tuple[Any, Replace], ...]:
        """The shapes, compiled when the first secret is met: most processes meet none."""
        return tuple((compile_linear(one.pattern), one.replace) for one in self._shapes)

    @cached_property
    def _each(self) -> Any:
        """All patterns in one automaton, which tells which of them match a text."""
        found = re2.Set.SearchSet(_options(capture=False))
        for pattern in self.patterns:
            found.Add(pattern)
        found.Compile()
        return found

    def _redacted(self, data: bytes, mark: Mark) -> str | None:
        """Return the text without its secrets, None if it has none."""
        if not self._any.search(data):
            return None
        first = data
        for _ in range(_PASSES):
            before = data
            # One search tells which shapes there are. It tells of none if its automaton grew too large: then try each.
            there = self._each.Match(data) or range(len(self.patterns))
            for number in sorted(there):
                if number < len(self._compiled):
                    pattern, replace = self._compiled[number]
                    data = pattern.sub(lambda match, replace=replace: replace(_Match(match), mark), data)
            data = self._without_assigned(data, mark)
            if data == before:
                break
        return None if data == first else data.decode("utf-8", "replace")

    def _without_assigned(self, data: bytes, mark: Mark) -> bytes:
        """Replace the values that stand under secret names.

        Behind a harmless name the search continues at the value: a secret may stand in it
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
    """Return ``text`` with each secret that its shape or its name gives away replaced by ``MARKER``."""
    return REDACTOR.redact(text)
