"""Reads a tool's name: its words, the verb that counts, the nouns it is about."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from callosum.rules import lexicon as lex

_SPLIT: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_a-zA-Z]+")
_JOINED: Final = re.compile(
    r"create_?or_?update|add_?or_?update|get_?or_?create|find_?or_?create|check_?out|set_?up|log_?in|log_?out|"
    r"sign_?in|sign_?out|sign_?up|roll_?back|un_?subscribe|clean_?up|shut_?down|tear_?down",
    re.IGNORECASE,
)
_JOINS: Final = {
    "createorupdate": "create", "addorupdate": "add", "getorcreate": "create", "findorcreate": "create",
    "checkout": "checkout", "setup": "setup", "login": "login", "logout": "logout", "signin": "login",
    "signout": "logout", "signup": "signup", "rollback": "rollback", "unsubscribe": "unsubscribe",
    "cleanup": "clear", "shutdown": "stop", "teardown": "teardown",
}  # fmt: skip


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
    """Returns the lower-case words of a name, without the server part of ``mcp__server__tool``."""
    if name.startswith("mcp__"):
        name = name.rsplit("__", 1)[-1] or name
    name = name.rsplit(":", 1)[-1].rsplit("/", 1)[-1] or name
    name = _JOINED.sub(
        lambda match: "_" + _JOINS.get(match.group().lower().replace("_", ""), match.group()) + "_",
        name[:256],
    )
    found = [one.lower() for one in _SPLIT.findall(name)]
    return found[1:] if found[:1] == ["api"] and len(found) > 1 else found


def stem(word: str) -> str:
    """Returns the verb of which ``word`` is a form (``sends``, ``sending``), ``""`` if none is known."""
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
        if word.endswith(end) and (base := word[: -len(end)] + instead) in lex.VERBS and len(base) > 2:
            return base
    return ""


def singular(word: str) -> str:
    """Returns a noun in the singular, synonyms folded to one."""
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith(("sses", "xes", "ches", "shes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3:
        word = word[:-1]
    return lex.FOLD.get(word, word)


@lru_cache(maxsize=2048)
def read_name(tool: str) -> Name:
    """Returns what a tool's name says (kept for the last 2048 names)."""
    found = words(tool)
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
    """Returns the place and the word of the verb that counts, and a milder one that may be meant.

    ``(-1, "", "")`` if there is none.
    """
    known = [
        (at, word, *lex.VERBS[word])
        for at, word in enumerate(found)
        if word in lex.VERBS and (at == 0 or found[at - 1] not in lex.PREPOSITIONS or lex.VERBS[word][1] == lex.STRONG)
    ]
    strong = [one for one in known if one[3] == lex.STRONG]
    last = len(found) - 1
    if strong:
        first, end = strong[0], strong[-1]
        if first is end or end[0] < last:
            aside = first[0] == 0 and last == 1 and found[last] in lex.SIDES and first[1] not in lex.SETS
            return first[0], first[1], found[last] if aside and first[2] > 0 else ""
        # ``noun_verb`` catalogues: a verb at either end may be meant, so the graver counts, unless
        # the name begins with one or ends in one that is never a noun.
        if end[2] > first[2]:
            return (first[0], first[1], "") if first[0] == 0 else (end[0], end[1], first[1])
        if end[2] == 0 < first[2]:
            if first[0] > 0 and end[1] in lex.ONLY_VERBS:
                return end[0], end[1], ""
            return first[0], first[1], end[1]
        return first[0], first[1], ""
    loose = [one for one in known if one[3] == lex.LOOSE]
    for one in loose:
        if one[0] == 0:
            if one[2] and found[last] in lex.SIDES and (one[1] not in lex.SENDS or found[last] not in lex.SENT):
                return last, found[last], ""
            return 0, one[1], ""
    # Weak words are nouns as a rule: the last one is the head of the name.
    if known and known[-1][0] == last:
        return last, known[-1][1], ""
    known = loose or known
    return (known[0][0], known[0][1], "") if known else (-1, "", "")


def leading_verb(description: str) -> str:
    """Returns the verb with which a description begins (``Returns the ...``), ``""`` if none.

    Of several (``List, create or close a tab``) the gravest counts.
    """
    if description.lstrip()[:8].lower().startswith(("return", "provide")):
        return "get"
    best = ""
    joined = True
    for at, word in enumerate(re.findall(r"[A-Za-z]+|[,/]", description[:200])[:16]):
        if word in ",/" or word.lower() in ("or", "and"):
            joined = True
            continue
        base = stem(word.lower())
        if base and joined and lex.VERBS[base][1] > lex.WEAK:
            if not best or lex.VERBS[base][0] > lex.VERBS[best][0]:
                best = base
            joined = False
        elif best or at > 0:
            break
    return best
