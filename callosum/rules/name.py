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
    folded; ``head`` is the last noun before a preposition; ``sure`` tells whether the verb is more
    than a noun that can also be a verb.
    """

    verb: str
    tier: int
    sure: bool
    nouns: tuple[str, ...]
    head: str
    words: tuple[str, ...]


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
    place, verb = _verb(found)
    tier = lex.VERBS[verb][0] if verb else 1
    strength = lex.VERBS[verb][1] if verb else lex.WEAK
    # Of two verbs joined by "or" or "and" the graver counts.
    for at, word in enumerate(found):
        if word in ("or", "and") and 0 < at < len(found) - 1:
            other = found[at + 1]
            if other in lex.VERBS and lex.VERBS[other][1] > lex.WEAK and lex.VERBS[other][0] > tier:
                verb, (tier, strength) = other, lex.VERBS[other]
    nouns: list[str] = []
    head = ""
    done = False
    for at, word in enumerate(found):
        if at == place and strength > lex.WEAK:
            continue
        if word in lex.PREPOSITIONS:
            done = done or bool(nouns)
            continue
        if word in lex.QUALIFIERS or word.isdigit():
            continue
        noun = singular(word)
        nouns.append(noun)
        if not done:
            head = noun
    if "pr" in nouns and "request" in nouns:
        nouns = [one for one in nouns if one != "request"]
        head = "pr" if head == "request" else head
    return Name(verb, tier, strength > lex.WEAK, tuple(dict.fromkeys(nouns)), head, tuple(found))


def _verb(found: list[str]) -> tuple[int, str]:
    """Returns the place and the word of the verb that counts, ``(-1, "")`` if there is none."""
    known = [(at, word, *lex.VERBS[word]) for at, word in enumerate(found) if word in lex.VERBS]
    strong = [one for one in known if one[3] == lex.STRONG]
    last = len(found) - 1
    if strong:
        first, end = strong[0], strong[-1]
        # ``noun_verb`` catalogues: a verb at either end may be meant, so the graver counts, unless
        # the name begins with one.
        chosen = end if first[0] > 0 and end[0] == last and end[2] > first[2] else first
        return chosen[0], chosen[1]
    loose = [one for one in known if one[3] == lex.LOOSE]
    for one in loose:
        if one[0] == 0:
            return 0, one[1]
    # Weak words are nouns as a rule: the last one is the head of the name.
    if known and known[-1][0] == last:
        return last, known[-1][1]
    known = loose or known
    return (known[0][0], known[0][1]) if known else (-1, "")


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
