"""Finds secrets inside text by their shape.

Every pattern is matched by RE2 on bytes: time grows with the text and never faster, whatever an agent
writes. One automaton of all shapes tells at once that a text holds none, which is the rule.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import re2

from callosum.redact.names import NAME_LIMIT, Cover, cover

if TYPE_CHECKING:
    from collections.abc import Callable

MARKER: Final = "[redacted]"
"""What stands in place of a secret."""

_MARK: Final = MARKER.encode()
_DIGIT: Final = re.compile(rb"[0-9]")
_SURELY_NO_WORD: Final = 24
"""From this length on, what follows ``Bearer`` is no English word, digits or not."""
_HARMLESS: Final = re.compile(
    rb"str|string|bytes|bool|int|any|none|null|true|false|undefined|optional\W.*|\*+|=+|"
    rb"os\.environ.*|os\.getenv.*|process\.env.*|\[redacted\]",
    re.IGNORECASE,
)
"""Values that give nothing away: types, nothing at all, and references to the environment."""
_VARIABLE: Final = re.compile(rb"\$\{?[A-Z_][A-Z0-9_]*\}?|\$\(.*")


class _Match:
    """The groups of a match, typed: the library that finds them has no types."""

    __slots__ = ("_match",)

    def __init__(self, match: Any) -> None:
        self._match = match

    def __getitem__(self, group: int) -> bytes:
        found: bytes = self._match.group(group)
        return found


def _all(_: _Match) -> bytes:
    return _MARK


def _after(match: _Match) -> bytes:
    return match[1] + _MARK


def _login(match: _Match) -> bytes:
    return match[1] + _MARK + b"@"


def _unless_words(match: _Match) -> bytes:
    return match[1] + _MARK if _DIGIT.search(match[0]) else match[0]


def _after_scheme(match: _Match) -> bytes:
    if len(match[2]) < _SURELY_NO_WORD and not _DIGIT.search(match[2]):
        return match[0]
    return match[1] + _MARK


def _assigned(match: _Match) -> bytes:
    """A name, what stands between, and a value that may be quoted, also inside quoted JSON."""
    name, between, value = match[1], match[2], match[3]
    quote = value[: 2 if value[:1] == b"\\" else 1]
    if quote not in (b'"', b"'", b'\\"'):
        quote = b""
    bare = value.removeprefix(quote).removesuffix(quote)
    hide = cover(name[-NAME_LIMIT:].decode("ascii", "replace"))
    if not bare or hide is Cover.NOTHING or (hide is Cover.STRINGS and bare.isdigit()):
        return match[0]
    if _HARMLESS.fullmatch(bare) or _VARIABLE.fullmatch(bare):
        return match[0]
    closed = len(value) > len(quote) and value.endswith(quote)
    return name + between + quote + _MARK + (quote if closed else b"")


class _Shape(NamedTuple):
    """A pattern of bytes, and what to put in place of a match."""

    pattern: bytes
    replace: Callable[[_Match], bytes]


_SECRET_NAME: Final = (
    rb"[A-Za-z0-9_.-]*(?i:passw|pwd|passphrase|passcode|secret|token|credential|jwt|cvv|cvc|otp|auth"
    rb"|cookie|(?:api|access|private|encryption|signing|ssh|master|deploy|license|hmac)[_.-]?key"
    rb"|\bpass\b)[A-Za-z0-9_.-]*"
)
_VALUE: Final = (
    rb"""(\[redacted\]|\\"[^"\\\n]*(?:\\")?|"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?"""
    rb"""|\$\{[^}\s]*\}?|\$\([^)\n]*\)?|[^\s,;&"'{}()\[\]]+)"""
)

_PASSES: Final = 4
"""How often a text is gone over at most: what stands in place of one secret can bring the ends of another together."""
_START: Final = rb"(\\[nrt]|\b)"
"""Where a word begins, also behind an escaped break: text within text, as JSON has it."""

_SHAPES: Final = (
    _Shape(
        rb"(?s)-----BEGIN[A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----.*?"
        rb"(?:-----END[A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----|\z)",
        _all,
    ),
    _Shape(
        _START + rb"(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}"  # GitHub
        rb"|gl(?:pat|dt|rt|cbt|ptt|ft|soat)-[A-Za-z0-9_-]{16,}"  # GitLab
        rb"|xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,}"  # Slack
        rb"|(?:AKIA|ASIA)[A-Z0-9]{16}"  # AWS
        rb"|AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,}"  # Google
        rb"|[sr]k_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9]{16,}"  # Stripe
        rb"|npm_[A-Za-z0-9]{30,}|hf_[A-Za-z0-9]{20,}|gsk_[A-Za-z0-9]{20,}"
        rb"|shp(?:at|ss|ca|pa)_[A-Fa-f0-9]{32}|dop_v1_[a-f0-9]{32,}|hvs\.[A-Za-z0-9_-]{20,}"
        rb"|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"  # SendGrid
        rb"|[0-9]{8,10}:[A-Za-z0-9_-]{35}"  # Telegram
        rb"|cal_[A-Za-z0-9][A-Za-z0-9._-]{0,63}_[A-Za-z0-9_-]{43}"  # our own
        rb"|AGE-SECRET-KEY-1[0-9A-Z]{20,}"
        rb"|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?)",  # JSON web token
        _after,
    ),
    _Shape(_START + rb"(?:sk|xai|pypi)-[A-Za-z0-9_-]{16,}", _unless_words),
    _Shape(rb"(hooks\.slack\.com/services/|/api/webhooks/[0-9]+/)[A-Za-z0-9_/-]{8,}", _after),
    _Shape(rb"""(://[^\s/:@?#"'<>]*:)[^\s/?#"'<>]+@""", _login),
    _Shape(rb"""(://)[^\s/:@?#"'<>]{20,}@""", _login),
    _Shape(
        rb"""(?i)(\b(?:(?:proxy-)?authorization|(?:set-)?cookie)\\?["']?\s*:\s*\\?["']?)"""
        rb"""(?:\[redacted\]|[^\r\n"'\\])+""",
        _after,
    ),
    _Shape(rb"(?i)(\b(?:bearer|basic)\s+)([A-Za-z0-9._~+/=-]{8,})", _after_scheme),
    _Shape(
        rb"""(\bcurl\b[^\n]*?\s(?:-u|--user)[ =]?["']?[^\s:"']+:|\bsshpass\s+-p\s*"""
        rb"""|\bmysql(?:dump|admin)?\b[^\n]*?\s-p)(?:\[redacted\]|[^\s"'-][^\s"']*)""",
        _after,
    ),
    _Shape(rb"(--" + _SECRET_NAME + rb")(\s+)" + _VALUE, _assigned),
    _Shape(
        rb"(" + _SECRET_NAME + rb""")(\\?["']?\]?\s{0,3}(?::=|=>|==|[:=])\s{0,3})""" + _VALUE,
        _assigned,
    ),
)


def _compile(pattern: bytes, *, capture: bool = True) -> Any:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1  # bytes as they are: nothing to decode on the way
    options.never_capture = not capture
    options.log_errors = False
    return re2.compile(pattern, options=options)


_ANY: Final = _compile(b"|".join(b"(?:" + each.pattern + b")" for each in _SHAPES), capture=False)
_EACH: Final = tuple((_compile(each.pattern), each.replace) for each in _SHAPES)


def is_plain(text: str) -> bool:
    """Return whether ``text`` is valid Unicode and shows no secret, so that it can stay as it is."""
    try:
        return not _ANY.search(text.encode())
    except UnicodeEncodeError:
        return False


def redact_text(text: str) -> str:
    """Return ``text`` with each secret that its shape or its name gives away replaced by ``MARKER``.

    Lone surrogates become U+FFFD. What was redacted stays as it is when it is redacted again. Linear in the length
    of the text.
    """
    try:
        data = text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        data = text.encode()
    if not _ANY.search(data):
        return text
    for _ in range(_PASSES):
        before = data
        for pattern, replace in _EACH:
            if pattern.search(data):
                data = pattern.sub(lambda match, replace=replace: replace(_Match(match)), data)
        if data == before:
            break
    return data.decode("utf-8", "replace")
