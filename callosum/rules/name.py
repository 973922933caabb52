"""Reads a tool's name: its words, the verb that counts, the nouns it is about."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final, NamedTuple

from callosum.rules import lexicon as lex
from callosum.rules.lexicon import maps

MAX_NAME: Final = 256
"""How many characters of a name are read."""
_ALIKE: Final = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u04bb\u0501\u051b\u051d\u0433\u043a\u043c\u043d\u0442\u0432"
    "\u03b1\u03bf\u03c1\u03c5\u03bd\u03b9\u03ba\u03c4\u03c7\u0261\u0131\u0251\u2010\u2011\u2012\u2013\u2014\u2212",
    "aeopcyxijshdqwrkmhtbaopuviktxgia------",
)
"""Letters of other scripts that look like Latin ones: beside Latin letters they are meant as such."""
_SPLIT: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_a-zA-Z]+")
_JOINED: Final = re.compile(
    # as whole words: ``check_in``, ``checkIn``, not the beginning of ``check_index`` nor the end of ``assign_in``
    r"(?:(?<![A-Za-z])|(?<=[a-z])(?=[A-Z]))(?i:"
    + "|".join(
        one.replace(" ", "[_.-]?")
        for one in (
            "create or update", "add or update", "get or create", "find or create", "check out", "check in", "set up",
            "log in", "log out", "sign in", "sign out", "sign up", "roll back", "un subscribe", "clean up", "shut down",
            "tear down", "power off", "power down", "power on", "power up", "power cycle",
            "look up", "back up", "opt out", "opt in", "merge requests?", "pull requests?",
            "two factor", "multi factor", "2fa",
        )
    )
    + r")(?![a-z])(?!(?<=[A-Z])[A-Z])"
)  # fmt: skip


class Name(NamedTuple):
    """What a tool's name says.

    ``verb`` is ``""`` where it has none; ``tier`` is the verb's; ``nouns`` in order, singular and
    folded; ``head`` is the last noun before a preposition, ``place`` the first noun after one;
    ``sure`` tells whether the verb is more than a noun that can also be a verb, ``firm`` whether
    it can hardly be anything else where it stands; ``rival`` is another verb that may be the one
    that is meant, milder than ``verb``.
    """

    verb: str
    tier: int
    sure: bool
    nouns: tuple[str, ...]
    head: str
    words: tuple[str, ...]
    place: str = ""
    firm: bool = True
    rival: str = ""


def words(name: str) -> list[str]:
    """Return the lower-case words of a name, without the server part of ``mcp__server__tool``."""
    name = name[:MAX_NAME]
    if not name.isascii():
        name = _folded(name)
    if name.startswith("mcp__"):
        name = name.rsplit("__", 1)[-1] or name
    name = name.rsplit(":", 1)[-1].rsplit("/", 1)[-1] or name
    name = _JOINED.sub(_joined, name)
    found = [one.lower() for one in _SPLIT.findall(name)]
    if len(found) > 2 and found[-2] == "v" and found[-1].isdigit():
        del found[-2:]  # ``createIssueV2``
    return found[1:] if found[:1] == ["api"] and len(found) > 1 else found


def _joined(match: re.Match[str]) -> str:
    said = match.group()
    return "_" + maps.JOINED_WORDS.get(re.sub("[_.-]", "", said.lower()), said) + "_"


def _folded(name: str) -> str:
    """Return a name with styled letters plain, look-alikes as Latin letters, and nothing that cannot be seen."""
    name = "".join(one for one in unicodedata.normalize("NFKC", name)[:MAX_NAME] if unicodedata.category(one) != "Cf")
    return name.translate(_ALIKE) if any("a" <= one <= "z" for one in name.lower()) else name


def stem(word: str) -> str:
    """Return the verb of which ``word`` is a form (``sends``, ``sending``), ``""`` if none is known."""
    if word in lex.VERBS:
        return word
    for end, instead in (
        ("ies", "y"),
        ("es", ""),
        ("es", "e"),
        ("s", ""),
        ("ing", ""),
        ("ing", "e"),
        ("ed", ""),
        ("ed", "e"),
        ("d", ""),
    ):
        if not word.endswith(end):
            continue
        base = word[: -len(end)] + instead
        if base in lex.VERBS and len(base) > 2:
            return base
        if len(base) > 3 and base[-1] == base[-2] and base[:-1] in lex.VERBS:  # dropping, submitted
            return base[:-1]
    return ""


def singular(word: str) -> str:
    """Return a noun in the singular, synonyms folded to one."""
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith(("sses", "xes", "ches", "shes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3:
        word = word[:-1]
    return maps.FOLD.get(word, word)


@lru_cache(maxsize=2048)
def read_name(tool: str) -> Name:
    """Return what a tool's name says (kept for the last 2048 names)."""
    found = words(tool)
    if found:
        found[0] = _plain(found[0])
    place, verb, rival = _verb(found)
    tier = lex.VERBS[verb][0] if verb else 1
    strength = lex.VERBS[verb][1] if verb else lex.WEAK
    # Of two verbs joined by "or" or "and" the graver counts.
    for at, word in enumerate(found):
        if word in ("or", "and") and 0 < at < len(found) - 1:
            other = found[at + 1]
            if other in lex.VERBS and lex.VERBS[other][1] > lex.WEAK and lex.VERBS[other][0] > tier:
                verb, (tier, strength) = other, lex.VERBS[other]
    nouns: list[str] = []
    head = container = ""
    done = placed = False
    for at, word in enumerate(found):
        if at == place and strength > lex.WEAK:
            continue
        if word in lex.PREPOSITIONS:
            done = done or bool(nouns)
            placed = True
            continue
        if word in lex.QUALIFIERS or word.isdigit():
            continue
        noun = singular(word)
        nouns.append(noun)
        if not done:
            head = noun
        if placed and not container:
            container = noun
    if "pr" in nouns and "request" in nouns:
        nouns = [one for one in nouns if one != "request"]
        head = "pr" if head == "request" else head
    firm = strength == lex.STRONG or (strength == lex.LOOSE and place == 0)
    return Name(
        verb, tier, strength > lex.WEAK, tuple(dict.fromkeys(nouns)), head, tuple(found), container, firm, rival
    )


def _verb(found: list[str]) -> tuple[int, str, str]:
    """Return the place and the word of the verb that counts, and a milder one that may be meant.

    ``(-1, "", "")`` if there is none.
    """
    known, strong = _known(found)
    last = len(found) - 1
    if len(strong) == 1 and strong[0][0] == last == 1 and found[0] in lex.POSTS and found[1] in lex.SAYINGS:
        return 0, found[0], ""  # ``post_tweet``: the second is what is posted
    if begun := _begun(known, strong, last):
        return begun[0], begun[1], ""
    if strong:
        return _of_strong(found, strong, last)
    loose = [one for one in known if one[3] == lex.LOOSE]
    for one in loose:
        if one[0] == 0:
            if one[2] and found[last] in lex.SIDES and (one[1] not in lex.SENDS or found[last] not in lex.SENT):
                return last, found[last], ""
            return 0, one[1], ""
    for one in known:
        if one[1] == "log" and one[0] < last and found[one[0] + 1] not in lex.LOGGED and not loose:
            return one[0], "record", ""  # ``log_meal``
    if (
        len(known) == 1
        and known[0][0] == 0 < last
        and known[0][1] in maps.ACTS_BEFORE_OBJECT
        and found[1] not in lex.NO_OBJECTS
    ):
        return 0, maps.ACTS_BEFORE_OBJECT[known[0][1]], known[0][1]  # ``report_user``, ``snapshot_volume``
    # Weak words are nouns as a rule: the last one is the head of the name.
    if known and known[-1][0] == last and not (loose and known[-1][2] > loose[0][2] == 0):
        return last, known[-1][1], ""
    known = loose or known
    return (known[0][0], known[0][1], "") if known else (-1, "", "")


def _of_strong(found: list[str], strong: list[_Verb], last: int) -> tuple[int, str, str]:
    """Return what ``_verb`` does for a name with verbs that are hardly ever nouns."""
    first, end = strong[0], strong[-1]
    if first[1] in lex.LISTS and end[2] > 0 and (first[0] or end[0] == last):
        # ``todo_list_add``, ``ps_restart``: the looking verb may be a noun.
        return end[0], end[1], first[1]
    if first is end or end[0] < last:
        aside = first[0] == 0 and last == 1 and found[last] in lex.SIDES and first[1] not in lex.SETS | lex.ENDS
        return first[0], first[1], found[last] if aside and first[2] > 0 else ""
    # ``noun_verb`` catalogues: a verb at either end may be meant, so the graver counts, unless
    # the name begins with one or ends in one that is never a noun.
    if end[2] > first[2]:
        return (first[0], first[1], "") if first[0] == 0 else (end[0], end[1], first[1])
    if end[2] == 0 < first[2]:
        if first[0] == 0 and first[1] in lex.ENDS:
            return 0, first[1], ""  # ``delete_list``: no description makes it a look
        if first[0] > 0 and end[1] in lex.ONLY_VERBS:
            return end[0], end[1], ""
        return first[0], first[1], end[1]
    return first[0], first[1], ""


def _plain(first: str) -> str:
    """Return the first word of a name, as a verb where it is one in another form.

    Libraries call the asynchronous twin of ``get`` ``aget``; names that are made of sentences begin with ``deletes``.
    """
    if first in lex.VERBS:
        return first
    if first[0] == "a" and first not in lex.NOT_TWINS and lex.VERBS.get(first[1:], _NO_VERB)[1] > lex.WEAK:
        return first[1:]
    return first[:-1] if first[-1] == "s" and first[:-1] in lex.SPOKEN else first


_NO_VERB: Final = (1, lex.WEAK)

_Verb = tuple[int, str, int, int]
"""The place of a verb in a name, its word, tier and strength."""


def _known(found: list[str]) -> tuple[list[_Verb], list[_Verb]]:
    """Return the words of a name that can be its verb, and those of them that hardly can be nouns."""
    known = [
        (at, word, *lex.VERBS[word])
        for at, word in enumerate(found)
        if word in lex.VERBS and (at == 0 or found[at - 1] not in lex.PREPOSITIONS or lex.VERBS[word][1] == lex.STRONG)
    ]
    strong = [one for one in known if one[3] == lex.STRONG]
    if len(strong) > 1:  # ``list_users_to_delete``, ``find_by_zip``: what follows a preposition says which ones
        last = len(found) - 1
        border = next((at for at in range(strong[0][0] + 1, last) if found[at] in lex.PREPOSITIONS), last)
        strong = [one for one in strong if one[0] <= border]
    return known, strong


def _begun(known: list[_Verb], strong: list[_Verb], last: int) -> _Verb | None:
    """Return the act that another verb of a name only begins (``submit_bulk_delete``), None unless it is graver.

    The noun of an act at the end of a name (``request_profile_deletion``) counts before a verb that may be a noun.
    """
    deed = known[-1] if known and known[-1][0] == last and known[-1][1] in lex.DEEDS else None
    if strong:
        first = strong[0]
        if first[1] not in lex.BEGINS:
            return None
        gravest = max(strong if deed is None else [*strong, deed], key=lambda one: one[2])
        return gravest if gravest[2] > first[2] else None
    if deed is None or deed[2] <= known[0][2]:
        return None
    first = known[0]
    return deed if first[0] or first[2] or first[1] in lex.THINGS else None


_TOLD: Final = re.compile(r"[A-Za-z]+|[,/]")


def leading_verb(description: str) -> str:
    """Return the verb with which a description begins (``Returns the ...``), ``""`` if none.

    Of several (``List, create or close a tab``) the gravest counts.
    """
    found = [one.lower() for one in _TOLD.findall(description[:300])[:24]]
    start = next((at for at, word in enumerate(found) if word not in lex.DESCRIPTION_OPENERS), 0)
    if found[start : start + 1] and found[start].startswith(("return", "provide")):
        found[start] = "get"
    best = ""
    joined = True
    for at, word in enumerate(found[start : start + 16]):
        if word in ",/" or word in ("or", "and"):
            joined = True
            continue
        base = "get" if word.startswith("return") else _phrase(word, found[start + at + 1 : start + at + 2])
        if at == 1 and not best and base != word and not found[start].endswith("ly"):
            break  # "Hot posts of": a noun after its adjective
        if base and joined and lex.VERBS[base][1] > lex.WEAK and base not in lex.STATES_A_FACT:
            if not best or lex.VERBS[base][0] > lex.VERBS[best][0]:
                best = base
            joined = False
        elif best or at > 0:
            break
    return best


def _phrase(word: str, after: list[str]) -> str:
    """Return the verb of which ``word`` is a form, with the word after it where both make one: ``sets up``."""
    base = stem(word)
    return maps.JOINED_WORDS.get(base + after[0], base) if base and after and after[0] in lex.VERB_PARTICLES else base


def opening_verb(description: str) -> str:
    """Return the verb that a description's first word must be a form of, also where it could be a noun.

    It is a verb where an object follows (``Boosts a status``); ``""`` elsewhere (``Order status``).
    """
    found = [one.lower() for one in _TOLD.findall(description[:300])[:24]]
    start = next((at for at, word in enumerate(found) if word not in lex.DESCRIPTION_OPENERS), len(found))
    return stem(found[start]) if found[start + 1 : start + 2] and found[start + 1] in lex.OBJECT_DETERMINERS else ""
