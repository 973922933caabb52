"""Whether two texts say nearly the same, told from hashes of their words alone.

What is kept of a text (at most 272 bytes, however long it is)
    ``words``: the 64 smallest of the hashes of its words, 4 bytes each, which makes them a sample of the set.
    The two lowest bits of a hash say what sort of word it is: *rare* (not one of the everyday words that people
    exchange for one another) and a *name* (written with a capital inside a sentence).
    ``numbers``: one digest of all numbers, with how often each occurs, and of the words on which a sentence turns.
    What only greets and thanks is left out of both.
When two are nearly equal
    The numbers are equal. Neither has a name in place of the other's. Of the words at most three in ten are
    exchanged, of the rare ones at most one in seven, and the longer text is at most half as long again: an
    acknowledgement and then the answer are two texts.

docs/rules.md says how good that is, by ``python -m bench.wording``.
A text put into altogether other words is not found: only its origin (``Call.origin``) can tell.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from hashlib import blake2b
from itertools import compress
from struct import Struct, unpack
from typing import TYPE_CHECKING, Any, Final

from callosum.rules import lexicon as lex

if TYPE_CHECKING:
    from callosum.model import Content

WORDS: Final = 64
"""How many word hashes are kept of one text: the smallest."""
FEW: Final = 4
"""Texts of fewer distinct words are never nearly equal, only equal."""
MAX_TEXT: Final = 16_384
"""How many characters of a call's text are read for its words; of the rest only its numbers count."""
MAX_NUMBERS: Final = 16
"""How many numbers among the other params count."""

_EXCHANGED: Final = 0.3
"""Exchanged words for each common one. A token-set ratio of 90 allows 0.22; the rare ones are other more tightly."""
_EXCHANGED_RARE: Final = 0.15
_LONGER: Final = 0.54
"""Words more in the longer text for each common one; ``_FREE`` more may always be."""
_FREE: Final = 2

_NAME: Final = 1
_RARE: Final = 2
_SORT: Final = _NAME | _RARE

_COMMANDS: Final = ("command", "cmd", "script")
_TEXT: Final = 1
_SENDER: Final = 2
_COMMAND: Final = 3
_ROLES: Final = {
    **dict.fromkeys(lex.TEXT_PARAMS, _TEXT),
    **dict.fromkeys(lex.WRITER_PARAMS, _SENDER),
    **dict.fromkeys(_COMMANDS, _COMMAND),
}
_PROSE: Final = 5
"""So many words make a param a text, whatever it is called."""

_WORD: Final = re.compile(r"\d+(?:[.,:]\d+)*|\w+")
_WIDE: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_DIGIT: Final = re.compile(rb"\d")
_CAPITAL: Final = re.compile(r" (?<=[\w,;] )([A-Z\u00c0-\u00d6\u00d8-\u00de\u0391-\u03a9\u0410-\u042f]\w+)")
"""A word with a capital that does not begin a sentence."""
_AMOUNT: Final = re.compile(r"[\sTZ+\-.,:/%$\u00a3\u20ac\u00a5#()]*\d[\d\sTZ+\-.,:/%$\u00a3\u20ac\u00a5#()]*")
"""A number, an amount, a date or a time, and nothing else."""

_AROUND: Final = b".,:_"

_TURNING: Final = frozenset(word.encode() for word in lex.TURNING_WORDS)
"""Words on which a sentence turns: like numbers they must be equal in nearly equal texts."""
_COURTESY: Final = frozenset(word.encode() for word in lex.COURTESY_WORDS)
"""What greets, asks nicely and takes leave."""
_EVERYDAY: Final = frozenset(word.encode() for word in lex.EVERYDAY_WORDS)
"""Words that are exchanged for one another, added and left out, without another meaning."""


class _Words(dict[bytes, int]):
    """Word -> its hash with its sort; 0 for what does not count, ``_NUMBER``. Learns what it is asked for. Bounded."""

    __slots__ = ("_hash",)

    def __init__(self, key: bytes) -> None:
        self._hash = blake2b(digest_size=4, key=key, person=b"word")

    def __missing__(self, word: bytes) -> int:
        bare = word.strip(_AROUND)
        if not bare or bare in _COURTESY:
            made = 0
        elif bare in _TURNING or _DIGIT.search(bare):
            made = _NUMBER
        else:
            state = self._hash.copy()
            state.update(bare)
            made = int.from_bytes(state.digest(), "big") & ~_SORT | (0 if bare in _EVERYDAY else _RARE) or _RARE
        if len(word) <= 32:
            if len(self) >= 16_384:
                self.clear()
            self[word] = made
        return made


class Sketcher:
    """Makes the sketches of texts. ``key`` keys the hashes (at most 64 bytes)."""

    __slots__ = ("_all", "_sort")

    def __init__(self, key: bytes) -> None:
        self._all = blake2b(digest_size=16, key=key, person=b"numbers")
        self._sort = _Words(key).__getitem__

    def sketch(self, params: Mapping[str, Any]) -> tuple[bytes, bytes]:
        """Return ``words`` and ``numbers`` of a call's text, both empty where it has too few words."""
        text, amounts, rest = gather(params)
        said = split(text)
        found = set(said)
        if len(found) < FEW:
            return b"", b""
        sorts = list(map(self._sort, found))
        hashes = set(sorts)
        turns = _NUMBER in hashes
        hashes -= _NO_HASH
        if len(hashes) < FEW:
            return b"", b""
        for name in _CAPITAL.findall(text):
            plain = self._sort(_bytes(name.lower()))
            if plain > 0:
                hashes.discard(plain)
                hashes.add(plain | _NAME)
        kept = sorted(hashes)[:WORDS]
        numbers = b""
        if turns or amounts or rest:
            numbers = self._digest(said, list(compress(found, map(_NUMBER.__eq__, sorts))), amounts, rest)
        return _PACKS[len(kept)](*kept), numbers

    def _digest(self, said: list[bytes], numbers: list[bytes], amounts: list[str], rest: str) -> bytes:
        """One digest of all numbers: those among the words, how often, those among the params, and the rest's."""
        count = said.count if len(numbers) <= 4 else Counter(said).__getitem__
        bare: dict[bytes, int] = {}
        for word in numbers:
            number = word.strip(_AROUND)
            bare[number] = bare.get(number, 0) + count(word)
        state = self._all.copy()
        state.update(b" ".join([b"%b*%d" % item for item in sorted(bare.items())]))
        if amounts:
            state.update("".join([f" ={amount}" for amount in sorted(amounts)]).encode("utf-8", "surrogatepass"))
        if rest:
            state.update(_bytes(rest).translate(None, _NO_DIGITS))
        return state.digest()


_NUMBER: Final = -1
_NO_DIGITS: Final = bytes(number for number in range(256) if not 48 <= number <= 57)
_NO_HASH: Final = frozenset((0, _NUMBER))
_PACKS: Final = tuple(Struct(f">{count}I").pack for count in range(WORDS + 1))


def near(a: Content, b: Content) -> bool:
    """Return True if two texts are nearly equal, as the module says. False where either has no sketch."""
    if not a.words or not b.words or a.numbers != b.numbers:
        return False
    if a.words == b.words:
        return True
    if len(a.words) % 4 or len(b.words) % 4:
        return False
    left, right = unpack(f">{len(a.words) // 4}I", a.words), unpack(f">{len(b.words) // 4}I", b.words)
    # A full sketch is a sample: it says nothing about hashes above its greatest.
    tops = [item[-1] for item in (left, right) if len(item) >= WORDS]
    if tops:
        top = min(tops) | _NAME
        left, right = (
            tuple(hashed for hashed in left if hashed <= top),
            tuple(hashed for hashed in right if hashed <= top),
        )
    mine, theirs = {hashed | _NAME for hashed in left}, {hashed | _NAME for hashed in right}
    common, only_mine, only_theirs = mine & theirs, mine - theirs, theirs - mine
    count, fewer, more = len(common), *sorted((len(only_mine), len(only_theirs)))
    if count < FEW or fewer > _EXCHANGED * count or more - fewer > _LONGER * count + _FREE:
        return False
    if not only_mine.isdisjoint(left) and not only_theirs.isdisjoint(right):
        return False  # each names somebody whom the other does not
    rare, exchanged = _rare(common), min(_rare(only_mine), _rare(only_theirs))
    return rare > 0 and exchanged <= _EXCHANGED_RARE * rare


def _rare(hashes: set[int]) -> int:
    return sum(1 for hash_ in hashes if hash_ & _RARE)


def gather(params: Mapping[str, Any]) -> tuple[str, list[str], str]:
    """Return the text of a call, the numbers, dates and senders among its params, and what is too long to read.

    A text is a param that is called like one, else any of several words: the names of a city and an airline are none.
    Of a shell command nothing is read: one option makes it another.
    """
    texts: list[str] = []
    others: list[str] = []
    amounts: list[str] = []
    for name, value in params.items():
        kind = type(value)
        if kind is str:
            role = _ROLES.get(name)
            if role == _TEXT:
                texts.append(value)
            elif role == _SENDER:
                amounts.append(value.strip().lower())
            elif role == _COMMAND and " " in value.strip():
                return "", [], ""
            elif not value[:1].isalpha() and len(value) <= 40 and _AMOUNT.fullmatch(value):
                amounts.append(value.strip())
            else:
                others.append(value)
        elif (kind is int or kind is float) and len(amounts) < MAX_NUMBERS:
            amounts.append(hex(int(value)) if value % 1 == 0 else f"{value:.12g}")
        elif kind is dict and len(value) <= MAX_NUMBERS:
            amounts += [
                item for item in value.values() if type(item) is str and len(item) <= 40 and _AMOUNT.fullmatch(item)
            ]
    if not texts:
        texts = [other for other in others if other.count(" ") + 1 >= _PROSE or _WIDE.search(other[:MAX_TEXT])]
    text = texts[0] if len(texts) == 1 else " ".join(texts[:16])
    return text[:MAX_TEXT], amounts[:MAX_NUMBERS], text[MAX_TEXT:]


def brief(params: Mapping[str, Any]) -> bool:
    """Return True if a message is a short phrase ("ok", "on it"), whose repetition means nothing.

    At most three words and 32 characters, with nothing beside them such as a subject or a picture.
    """
    text = ""
    for name, value in params.items():
        if name in lex.PHRASE_PARAMS and type(value) is str:
            if text or len(value) > 64:
                return False
            text = value.strip()
        elif name in lex.COMPANION_PARAMS and value:
            return False
    return 0 < len(text) <= 32 and len(_WORD.findall(text)) <= 3 and (text.isascii() or len(_WIDE.findall(text)) <= 8)


def split(text: str) -> list[bytes]:
    """Return the words of a text in lower case, with the dots and colons that numbers need."""
    if text.isascii():
        return text.encode().translate(_ASCII, b"'").split()
    text = unicodedata.normalize("NFKC", text.lower()).replace("\u2019", "").replace("'", "")
    found: list[bytes] = []
    for word in _WORD.findall(text):
        if _WIDE.search(word):  # a script without spaces: pairs of characters
            found += [_bytes(word[at : at + 2]) for at in range(max(1, min(len(word), 2048) - 1))]
        else:
            found.append(_bytes(word))
    return found


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


_ASCII: Final = bytes(
    ord(chr(number).lower()) if number < 128 and (chr(number).isalnum() or chr(number) in "_.,:") else 32
    for number in range(256)
)
