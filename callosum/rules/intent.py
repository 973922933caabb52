"""What an input asks for, guessed from its words.

A small heuristic for English. It looks at requests: clauses that begin with a verb once what only asks
("please", "can you", "and then") is left off. The gravest thing asked for names the whole; a question asks to be
told something, whatever verbs are in it. Nothing is decided by it: the gate judges the calls that follow.
"""

from __future__ import annotations

import re
from typing import Final

from callosum.rules.lexicon import COMMITMENTS, DESTROYS, FOLD, HEAVY, LOOSE, MAILS, REMOVES, SENDS, STRONG, TALK, VERBS

INTENTS: Final = ("inform", "read", "write", "communicate", "commit", "destroy")
"""What an input can ask for, in rising gravity."""
LOOKED_AT: Final = 2_000
"""How much of an input is looked at, in characters."""

_CLAUSE: Final = re.compile(r"[!?;\n]+|[.:](?=\s|$)|,|\b(?:and|then|but|so|after that|afterwards)\b")
_WORD: Final = re.compile(r"[a-z]+(?:['\u2019][a-z]+)?")
_QUESTION: Final = frozenset(
    "what what's why how when where who which whose is are was were do does did should has have am".split()
)
_ASKING: Final = frozenset(
    "please kindly can could would will you to now also just go ahead let let's lets us me i i'd i'll we want need "
    "like help try first next finally quickly ok okay hey hi hello once more again the a an thanks yes".split()
)
_NOT: Final = frozenset("don't do'nt dont not never without no avoid stop".split())
_TELLING: Final = frozenset("explain describe tell suggest recommend compare think guess discuss clarify teach".split())
_MORE: Final = {
    "fix": "write", "implement": "write", "refactor": "write", "correct": "write", "improve": "write",
    "clean": "write", "rewrite": "write", "format": "write", "bump": "write", "simplify": "write",
    "debug": "read", "investigate": "read", "research": "read", "review": "read", "catch": "read",
    "ask": "communicate", "tell": "communicate", "thank": "communicate", "ping": "communicate",
    "negotiate": "commit", "transfer": "commit",
}  # fmt: skip
"""Verbs of people that no tool is named by."""
_MADE: Final = frozenset("write create open add make file draft leave put raise start compose".split())
_SURE: Final = {STRONG: 0.9, LOOSE: 0.75}
_GRAVE: Final = 4
_COMMITS: Final = 3


def intent_of(text: str) -> tuple[str, float]:
    """Return one of ``INTENTS`` and how sure that is, from 0 to 1. Linear in what is looked at."""
    found: dict[str, float] = {}
    question = False
    for clause in _CLAUSE.split(text[:LOOKED_AT].lower()):
        words = _WORD.findall(clause)
        if not words:
            continue
        asks = words[0] in _QUESTION and not (words[0] == "do" and words[1:2] != ["you"])
        question = question or asks
        intent, sure = ("inform", 0.7) if asks else _of_request(words)
        found[intent] = max(sure, found.get(intent, 0))
    if not found or set(found) == {"inform"}:
        return "inform", found.get("inform", 0.3)
    intent = max(found, key=INTENTS.index)
    others = sum(1 for other in found if other not in (intent, "inform"))
    return intent, round(found[intent] - 0.1 * min(others + question, 3), 2)


def _of_request(words: list[str]) -> tuple[str, float]:
    """Return what a clause that is no question asks for."""
    start = next((place for place, word in enumerate(words) if word not in _ASKING), len(words))
    rest = words[start:]
    if not rest:
        return "inform", 0.3
    if rest[0] in _NOT or (rest[0] == "do" and rest[1:2] == ["not"]):
        return "inform", 0.5
    verb, objects = rest[0], {FOLD.get(word, word) for word in _singular(rest[1:])}
    if verb in _TELLING and (verb != "tell" or rest[1:2] in (["me"], ["us"])):
        return "inform", 0.85
    if verb == "know" and words[:2] == ["let", "me"]:
        return "inform", 0.85
    if verb in _MORE:
        return _MORE[verb], 0.85
    known = VERBS.get(verb)
    if known is None or known[1] not in _SURE:
        return "inform", 0.4
    return _of_verb(verb, known[0], objects), _SURE[known[1]]


def _of_verb(verb: str, tier: int, objects: set[str]) -> str:
    if verb in DESTROYS or (verb in REMOVES and objects & HEAVY):
        return "destroy"
    if verb in SENDS or (verb in _MADE and objects & (MAILS | TALK)):
        return "communicate"
    if tier in (_COMMITS, _GRAVE) or (tier and objects & COMMITMENTS):
        return "commit"
    if tier == 0:
        return "read"
    return "write"


def _singular(words: list[str]) -> list[str]:
    return words + [word[:-1] for word in words if word.endswith("s")]
