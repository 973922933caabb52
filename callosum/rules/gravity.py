"""Judge how grave an act is, from the kind of its verb and the class of its object, for tools and for command lines.

The kinds of verbs (``act_kinds``) and the tiers of each kind by class (``kind_tiers``) are rows of ``acts.toml``, the
classes of nouns are rows of ``objects.toml``.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from functools import cache

from callosum.rules import lexicon as lex
from callosum.rules.lexicon import maps


@cache
def _tiers(row: str) -> dict[str, int]:
    said = row.split()
    return dict(zip(said[::2], map(int, said[1::2]), strict=True))


def judge(verb: str, least: int, nouns: AbstractSet[str], head: str, place: str = "") -> tuple[int, str]:
    """Return the tier of a verb on what the nouns name, and the class of that, ``""`` for none that is known.

    ``least`` is the verb's own tier, ``head`` the noun that is acted on, ``place`` what that is in.
    """
    kind = maps.ACT_KINDS.get(verb, "")
    less = kind in ("destroy", "stop", "take", "pause", "close", "cancel", "unpublish")
    found = _class(nouns, head, place, less=less)
    tiers = _tiers(maps.KIND_TIERS.get(kind or "change", ""))
    tier = tiers.get(found, tiers.get("any", least))
    return (tier if kind else max(tier, least)), found


def _class(nouns: AbstractSet[str], head: str, place: str, *, less: bool) -> str:
    """Return the gravest class of the nouns. ``less``: a label that is taken away is a label, whatever it was on."""
    if less and head in lex.REMADE:
        return "remade"
    if less and head in lex.LIGHT and nouns.isdisjoint(lex.SETTINGS):
        return "aside" if head in lex.TALK else "label"
    if head == "subscription" and nouns & lex.NOTICES and not less:
        return ""  # to what happens: nobody pays for it
    if not nouns.isdisjoint(lex.MONEY):
        return "money"
    secret = "token" in nouns and (len(nouns) == 1 or nouns & lex.LOGIN_NOUNS)
    member = place in lex.MEMBERSHIPS and nouns & lex.PERSONS - {place}
    if secret or member or not nouns.isdisjoint(lex.ACCESS) or {"api", "key"} <= nouns:
        return "access"
    for name, words in (("setting", lex.SETTINGS), ("names", lex.NAMES), ("record", lex.MONEY_RECORDS)):
        if nouns & words:
            return name
    if nouns & lex.COMMITMENTS and head not in lex.ASIDES:
        return "commitment"
    if not less and nouns & lex.TALK:
        return "talk"
    classes = (
        ("talk", lex.TALK),
        ("process", lex.PROCESSES),
        ("person", lex.PERSONS),
        ("machine", lex.MACHINES),
        ("data", lex.HEAVY),
        ("lasting", lex.LASTING),
    )
    found = [name for name, words in classes if head in words] or [name for name, words in classes if nouns & words]
    return found[0] if found else ""
