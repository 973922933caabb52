"""The content of calls: digests and sketches."""

from __future__ import annotations

import random
from typing import Any, Final

from callosum.model import Content
from callosum.rules.content import Hasher, brief, near
from callosum.rules.wording import FEW
from fuzz import make
from fuzz.check import check
from fuzz.source import Source

_WARM: Final = Hasher(b"secret")
"""Remembers the words it has seen, which must change nothing."""
_SAID: Final = (
    "the invoice for order 4711 is late please send it to Anna before Friday at 10:30 thanks deploy failed on host web-3 "
    "approve decline meeting moved Berlin kickoff budget 1,200.50 EUR not never yes no can you review my pull request #12"
).split()


def run(source: Source) -> None:
    """Sketch texts: equal texts have equal sketches, nearness is symmetric, and no words are kept."""
    params = {"body": source.remaining()} if not source.maybe() else make.params(source)
    cold = Hasher(b"secret")
    one = _content(_WARM, params)
    check(one == _content(cold, params), "what was read before changes nothing", params)
    backwards = dict(reversed(params.items()))
    check(_WARM.digest("t", backwards) == one.digest, "the order of params changes no digest", params)
    check(_WARM.digest("u", params) != one.digest, "two tools have two digests", params)
    check(not one.words or near(one, one), "a text is near to itself", params)
    brief(params)
    said = _said(source)
    changed = list(said)
    for _ in source.times(4):
        changed[source.number(len(changed) - 1)] = source.text(12) or source.pick(_SAID)
    mine, theirs = (_content(_WARM, {"body": " ".join(words)}) for words in (said, changed))
    check(near(mine, theirs) == near(theirs, mine), "near is near both ways", said, changed)
    check(near(one, mine) == near(mine, one), "near is near both ways", params, said)
    spaced = _content(_WARM, {"body": "  \n ".join(said)})
    check(mine.numbers == spaced.numbers and bool(mine.words) == bool(spaced.words), "space is no word", said)
    check(not mine.words or near(mine, spaced), "a text is near to itself with other spaces", said)
    other = Hasher(b"another")
    theirs = _content(other, {"body": " ".join(said)})
    check(not mine.words or mine.words != theirs.words, "another secret makes another sketch", said)


def _said(source: Source) -> list[str]:
    """Return a text of at least a few words in random order."""
    words = [source.pick(_SAID) for _ in range(FEW + source.number(30))]
    random.Random(source.number(255)).shuffle(words)
    return words


def _content(hasher: Hasher, params: dict[str, Any]) -> Content:
    words, numbers = hasher.words(params)
    return Content(hasher.digest("t", params), words=words, numbers=numbers)
