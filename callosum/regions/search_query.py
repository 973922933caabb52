"""The query syntax of search, translated to FTS5.

::

    deploy staging          both words, anywhere
    "on it"                 these words in this order, next to each other
    deploy*                 words that begin with "deploy"
    deploy -staging         without that word; also -"on it" and -stag*
    thread:andy:msg-500     a whole key; andy or msg-500 alone match it too
    2026-05-16              entries of that day in this machine's time, and texts that contain it

Case and accents are ignored. A word is a run of letters and digits, so text with separators (``alice@example.com``)
becomes a phrase. In scripts without spaces between words, the beginning of a run matches it.
"""

from __future__ import annotations

import re
from typing import Final

from callosum.errors import ConfigError

MAX_QUERY: Final = 1000
"""Longest query, in characters."""
MAX_WORDS: Final = 32
"""Most words and phrases of a query."""

_TERM: Final = re.compile(r'(?P<without>-?)(?:"(?P<phrase>[^"]*)(?:"(?P<star>\*?)|\Z)|(?P<word>\S+))')
_DAY: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})", re.ASCII)
_CONTROLS: Final = re.compile("[\\s\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
_UNSEEN: Final = re.compile("[\xad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]+")
"""Invisible characters: in the middle of a word they would hide it from the search."""


def match_of(query: str, session: str | None = None) -> str:
    """Return the query in the language of FTS5. Every word is quoted, so no text acts as a command.

    With ``session`` only rows match whose session contains these words one after another. Raises ``ConfigError`` at
    ``query`` if it has no word to search for, too many words, or is too long.
    """
    if len(query) > MAX_QUERY:
        raise ConfigError(f"at most {MAX_QUERY} characters, got {len(query)}", at="query")
    wanted: list[str] = []
    unwanted: list[str] = []
    for term in _TERM.finditer(plain(query)):
        text, star = term["phrase"], bool(term["star"])
        if text is None:
            text, star = term["word"].rstrip("*"), term["word"].endswith("*")
        if has_word(text):
            (unwanted if term["without"] else wanted).append(_match(text, star=star))
    count = len(wanted) + len(unwanted)
    if count > MAX_WORDS:
        raise ConfigError(f"at most {MAX_WORDS} words, got {count}", at="query")
    if not wanted:
        beside = " beside those to leave out" if unwanted else ""
        raise ConfigError(f"expected a word to look for{beside}", at="query")
    if session is not None and has_word(session):
        wanted.append(f"session : {_quoted(plain(session))}")
    return " NOT ".join([f"({' AND '.join(wanted)})", *unwanted])


def plain(text: str) -> str:
    """Return the text on one line, without control and invisible characters."""
    if text.isascii() and text.isprintable():
        return text
    return _CONTROLS.sub(" ", _UNSEEN.sub("", text))


def has_word(text: str) -> bool:
    """Return True if the text has a letter or a digit; FTS5 finds nothing else."""
    return any(map(str.isalnum, text))


def _match(text: str, *, star: bool) -> str:
    if star:
        return f"{_quoted(text)}*"
    day = _DAY.fullmatch(text)
    return f"({_quoted(text)} OR day : {_quoted(''.join(day.groups()))})" if day else _quoted(text)


def _quoted(text: str) -> str:
    doubled = text.replace('"', '""')
    return f'"{doubled}"'
