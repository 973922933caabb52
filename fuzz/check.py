"""What must hold of every answer, whatever the input."""

from __future__ import annotations

import re
from typing import Any, Final
from unicodedata import category

from callosum.gate.check import key_of
from callosum.model import Classification, Key
from callosum.rules import near
from callosum.rules.keys import MAX_KEYS

_SHOWN: Final = 600
_PLAIN: Final = re.compile(r"[a-z]+:[\w./@#|-]+\w/?")
"""Keys without junk. For these more must hold than that the gate accepts them."""


class Broken(AssertionError):
    """A check that does not hold."""


def check(holds: object, what: str, *facts: Any) -> None:
    """Raise ``Broken`` with the check and its facts unless it holds."""
    if not holds:
        raise Broken("\n  ".join([what, *map(_shown, facts)]))


def _shown(fact: Any) -> str:
    try:
        return ascii(fact)[:_SHOWN]
    except RecursionError:
        return f"<a {type(fact).__name__} that is nested too deep to be shown>"


def well_formed(found: tuple[Key, ...]) -> None:
    """Check that keys occur once, that there are not too many, and that the gate would accept each from a client."""
    check(len(found) <= MAX_KEYS + 1, "a call has a bounded number of keys", len(found))
    check(len({one.name for one in found}) == len(found), "each key stands once", found)
    for one in found:
        taken = key_of(one.name).name
        junk = _PLAIN.fullmatch(one.name) is None
        check(junk or taken == one.name, "a key that the gate gave is taken as it is", one.name)
        kinds = {category(character) for character in one.name}
        check(kinds.isdisjoint({"Cc", "Cs", "Zl", "Zp"}), "a key holds no control and no line break", one.name)
        check(one.name == one.name.strip(), "a key has no space around it", one.name)


def sound(seen: Classification, *facts: Any) -> None:
    """Check that an answer is complete: a tier, an effect, reasons, keys, content."""
    check(0 <= seen.tier <= 4, "a tier lies from 0 to 4", seen, *facts)
    check(seen.effect in ("read", "write"), "an effect is read or write", seen, *facts)
    check(seen.tier == 0 or seen.effect == "write" or seen.rule, "what is graver than nothing writes", seen, *facts)
    check(seen.tier > 0 or seen.effect == "read" or seen.rule, "what writes is graver than nothing", seen, *facts)
    check(seen.why and all(seen.why), "an answer has its reasons", seen, *facts)
    well_formed(seen.keys)
    content = seen.content
    check(len(content.digest) == 16, "a call has a digest", content, *facts)
    check(len(content.words) <= 256 and len(content.words) % 4 == 0, "a sketch is small", content, *facts)
    check(not content.words or near(content, content), "a text is near to itself", content, *facts)
