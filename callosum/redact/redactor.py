"""Find secrets inside text: by the shape that their provider gave them, and by what precedes them.

RE2 matches every pattern on bytes, so time grows linearly with the text, whatever an agent writes. A text is first
searched for literals and clues, which cheaply show that it holds no secret; for most texts nothing else is needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cached_property, partial
from operator import itemgetter
from typing import Any, Final

import re2

from callosum.redact.conditions import bare, condition, is_secret, quoted
from callosum.redact.disguises import UNDISGUISED, undisguised
from callosum.redact.shape_table import TABLE, ShapeRow, compile_linear, expand, rows

MARKER: Final = "[redacted]"
"""The replacement of a secret."""

Mark = Callable[[bytes], bytes]
"""Return the replacement of a secret, which must match the fragment ``HIDDEN``."""

SHORT: Final = 456
"""Characters of a plain text that are remembered: paths and results recur, and a summary shows the beginning."""
_BEGINNING: Final = itemgetter(slice(SHORT))
_REMEMBERED: Final = 4096
_PASSES: Final = 4
"""Most passes over a text: the replacement of one secret can join the ends of another."""
_OPTIONS: Final = compile_linear("x", capture=False).options
_PUBLIC: Final = condition("public")
_DEEPEST: Final = 2
"""Most blanks before a value on the next line that is not in quotes."""
_CALLED: Final = re.compile(rb"[A-Za-z_]+(?:(?:\.|::)[A-Za-z_]+)*")
"""The name of a function."""
_IS_MARKED: Final = re.compile(expand("<HIDDEN>").encode())
_ANCHOR: Final = re.compile(r"[\^$]|\\.|\[(?:\\.|[^\]\\])*\]?", re.DOTALL)
"""An anchor; an escaped character and a class, which are none."""
_REPEATED: Final = re.compile(r"\{([0-9]+)(,?)([0-9]*)\}")
_ENOUGH: Final = 16
"""Repetitions that are counted to detect a possible secret: each one makes the automaton larger."""
_FIRST_NAME: Final = re.compile(r"\A((?:\(\?<name>)?)<NAME>")
_LAST_VALUE: Final = re.compile(r"\(<(?:VALUE|WORD|NEW)>\)\Z|\.\*\?.*", re.DOTALL)


def _set_of(patterns: Iterable[str]) -> Any:
    """Return a function that finds, in one search, the numbers of the patterns that match a text."""
    found = re2.Set.SearchSet(_OPTIONS)
    for pattern in patterns:
        found.Add(pattern.encode())
    found.Compile()
    return found._set.Match  # noqa: SLF001 - of each text; the wrapper only encodes what is no bytes


def _filter_of(patterns: Iterable[str]) -> Any:
    """Return a function of a text and True that finds, by literals, the numbers of the patterns that may match it."""
    found = re2.Filter()
    for pattern in patterns:
        found.Add(pattern.encode(), _OPTIONS)
    found.Compile()
    return found._filter.Match  # noqa: SLF001 - as above


def _looser(pattern: str) -> str:
    """Return a pattern with fewer states that matches wherever ``pattern`` does, also within a line of JSON.

    It ignores the ends of names and values. Where ``pattern`` wants the beginning or the end of a line, the quote of a
    JSON string serves too, and a carriage return, which stands for an escaped newline there.
    """
    pattern = expand(_LAST_VALUE.sub("", _FIRST_NAME.sub(r"\1<STEM><CHARS>", pattern)))
    anchored = _ANCHOR.sub(lambda found: rf'(?:{found[0]}|["\r])' if found[0] in "^$" else found[0], pattern)
    return _REPEATED.sub(_fewer, anchored)


def _fewer(match: re.Match[str]) -> str:
    return match[0] if int(match[3] or match[1]) <= _ENOUGH else f"{{{min(int(match[1]), _ENOUGH)},}}"


def marker(secret: bytes) -> bytes:
    """Return the replacement of a secret in a text; text that was redacted already stays."""
    return secret if _IS_MARKED.fullmatch(secret) else MARKER.encode()


class SecretShape:
    """A row of the table, whose patterns are compiled when a text may match them for the first time."""

    def __init__(self, row: ShapeRow) -> None:
        self.id, self.clue, self.sign = row.id, row.clue, row.sign.encode()
        self.pattern = row.pattern if isinstance(row.pattern, str) else "".join(row.pattern)
        self.looser = _looser(self.pattern)
        """A pattern that matches every text with such a secret."""
        self._conditions = [condition(name) for name in row.when]
        self._shortest = row.shortest
        self._each = SecretShape(TABLE.each[row.each]) if row.each else None

    @cached_property
    def search(self) -> Any:
        """Return a function of a text, and of the byte to begin at, that finds the first match of ``looser``."""
        return compile_linear(self.looser, capture=False).search

    @cached_property
    def _whole(self) -> Any:
        return compile_linear(expand(self.pattern))

    @cached_property
    def _group(self) -> int:
        """The group that is the secret."""
        number: int = self._whole.groupindex.get(b"secret", self._whole.groups)
        return number

    def replaced(self, data: bytes, mark: Mark) -> bytes:
        """Return ``data`` without the secrets that this row finds."""
        shown: bytes = self._whole.sub(partial(self._hidden, mark), data)
        return shown

    def _hidden(self, mark: Mark, match: Any) -> bytes:
        """Return a match without its secret, or as it is if it does not meet the conditions."""
        whole: bytes = match.group()
        secret = match.group(self._group) or b""
        value = bare(secret)
        if len(value) < self._shortest or not all(holds(match, value) for holds in self._conditions):
            return whole
        shown = self._each.replaced(secret, mark) if self._each else quoted(secret, mark)
        start = match.start(self._group) - match.start()
        return whole[:start] + shown + whole[start + len(secret) :]


class _Assignments(SecretShape):
    """The values under secret names. The pattern has two forms, each with a group for name and separator."""

    @cached_property
    def _value(self) -> Any:
        return compile_linear(expand("<VALUE>"))

    def replaced(self, data: bytes, mark: Mark) -> bytes:
        """Return ``data`` without the values under secret names.

        After a harmless name the search continues at the value, because it may contain a secret
        (``TOKEN_URL=https://x?client_secret=X``).
        """
        parts: list[bytes] = []
        at = kept = 0
        while (match := self._whole.search(data, at)) is not None:
            name, between = (match.group(1), match.group(2)) if match.group(1) else (match.group(3), match.group(4))
            at = match.end()
            if (found := self._value.match(data, at)) is None:
                continue
            value: bytes = found.group()
            if (
                not is_secret(name, bare(value))
                or _PUBLIC(match, value)
                or _is_code(between, value, data[found.end() :][:1])
            ):
                continue
            parts += (data[kept:at], quoted(value, mark))
            at = kept = at + len(value)
        return b"".join([*parts, data[kept:]]) if parts else data


def _is_code(between: bytes, value: bytes, following: bytes) -> bool:
    """Return True if a value is an option, a call or, after deep indentation, the next name of a nested structure."""
    if not between.strip():
        return value[:1] == b"-"
    indented = len(between) - len(between.rstrip(b" \t")) > _DEEPEST and b"\n" in between
    return (following == b"(" and _CALLED.fullmatch(value) is not None) or (indented and value[:1] not in b"\"'\\")


class Redactor:
    """Replace the secrets in texts.

    Most texts hold no secret, so the first question is which rows a text may match. For patterns with a literal of
    three letters, RE2 answers it with one search for all literals; each other row names a clue. Only the rows that
    a text may match are searched for, each by itself: one automaton of all rows would need a new state, of 20 us, for
    nearly every byte that it has not seen before.
    """

    def __init__(self) -> None:
        self.rules: tuple[SecretShape, ...] = tuple(
            [_Assignments(row) if row.id == "assignment" else SecretShape(row) for row in rows()]
        )
        self.plain: set[str] = {""}
        """Short texts without a secret, and the empty one. Bounded."""

    @cached_property
    def _by_literal(self) -> tuple[Any, list[SecretShape]]:
        """A search for the literals of the rows without a clue, and these rows."""
        found = [rule for rule in self.rules if not rule.clue]
        return _filter_of(rule.looser for rule in found), found

    @cached_property
    def _by_clue(self) -> list[tuple[Any, list[list[SecretShape]]]]:
        """Searches for clues, and the rules of each clue. A search for all clues would need many times the states."""
        clues: dict[str, list[SecretShape]] = {}
        for rule in self.rules:
            clues.setdefault(rule.clue, []).append(rule)
        clues.pop("", None)
        groups: tuple[list[str], ...] = ([], [], [])
        for clue in clues:
            groups[0 if clue == "named" or clue.startswith(r"\b(?:") else 1 if clue == "run" else 2].append(clue)
        return [
            (_set_of(expand(TABLE.clues.get(clue, clue)) for clue in group), [clues[clue] for clue in group])
            for group in groups
        ]

    def possible(self, data: bytes) -> list[SecretShape]:
        """Return the rules that may match, in their order. This is cheap if there are none."""
        by_literal, found = self._by_literal
        there = by_literal(data, True)
        rules = [found[at] for at in there] if there else []
        for clues_in, found_by in self._by_clue:
            for clue in clues_in(data):
                rules += found_by[clue]
        return sorted([rule for rule in rules if rule.sign in data], key=self._order) if rules else rules

    @cached_property
    def _order(self) -> Callable[[SecretShape], int]:
        return {rule: at for at, rule in enumerate(self.rules)}.__getitem__

    def is_plain(self, *texts: str) -> bool:
        """Return True if texts are valid Unicode and show no secret. One search covers all that is not remembered."""
        if self.plain.issuperset(texts):
            return True
        text = "\n".join(texts)
        try:
            data = text.encode()
        except UnicodeEncodeError:
            return False
        shown = undisguised(text) if data.translate(None, UNDISGUISED) else text
        for read in (data,) if shown == text else (data, shown.encode()):
            for rule in self.possible(read):
                if rule.search(read):
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
        plain = undisguised(shown if shown is not None else text)
        if plain is not text and plain != shown and (more := self._redacted(plain.encode(), mark)) is not None:
            return more
        if shown is not None:
            return shown
        if plain is text:
            self._remember(text)
        return text

    def _remember(self, *texts: str) -> None:
        """Remember that the beginnings of texts are plain."""
        if len(self.plain) >= _REMEMBERED:
            self.plain.intersection_update(("",))
        self.plain.update(map(_BEGINNING, texts))

    def _redacted(self, data: bytes, mark: Mark) -> str | None:
        """Return the text without its secrets, None if it has none."""
        first = data
        for _ in range(_PASSES):
            before = data
            for rule in self.possible(data):
                if rule.search(data):
                    data = rule.replaced(data, mark)
            if data == before:
                break
        return None if data == first else data.decode("utf-8", "replace")


REDACTOR: Final = Redactor()
is_plain = REDACTOR.is_plain


def redact_text(text: str) -> str:
    """Return ``text`` with each secret that its shape or its name reveals replaced by ``MARKER``."""
    return REDACTOR.redact(text)
