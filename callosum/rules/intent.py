"""What an input asks for, guessed from its words.

A small heuristic for English. It looks at requests: clauses that begin with a verb once what only asks
("please", "can you", "and then") is left off. The gravest thing asked for names the whole; a question asks to be
told something, whatever verbs are in it. Nothing is decided by it: the gate judges the calls that follow.
"""

from __future__ import annotations

import re
from typing import Final

from callosum.rules import lexicon as lex
from callosum.rules.lexicon import LOOSE, STRONG, VERBS, maps

INTENTS: Final = ("inform", "read", "write", "communicate", "commit", "destroy")
"""What an input can ask for, in rising gravity."""
LOOKED_AT: Final = 2_000
"""How much of an input is looked at, in characters."""

_CLAUSE: Final = re.compile(r"[!?;\n]+|[.:](?=\s|$)|,|\b(?:and|then|but|so|after that|afterwards)\b")
_WORD: Final = re.compile(r"[a-z]+(?:['\u2019][a-z]+)?")
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
        asks = words[0] in lex.QUESTION_WORDS and not (words[0] == "do" and words[1:2] != ["you"])
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
    start = next((place for place, word in enumerate(words) if word not in lex.REQUEST_WORDS), len(words))
    rest = words[start:]
    if not rest:
        return "inform", 0.3
    if rest[0] in lex.NEGATIONS or (rest[0] == "do" and rest[1:2] == ["not"]):
        return "inform", 0.5
    verb, objects = rest[0], {maps.FOLD.get(form, form) for word in rest[1:] for form in (word, word.removesuffix("s"))}
    if verb in lex.EXPLAINING_VERBS and (verb != "tell" or rest[1:2] in (["me"], ["us"])):
        return "inform", 0.85
    if verb == "know" and words[:2] == ["let", "me"]:
        return "inform", 0.85
    if verb in maps.SPOKEN_INTENTS:
        return maps.SPOKEN_INTENTS[verb], 0.85
    known = VERBS.get(verb)
    if known is None or known[1] not in _SURE:
        return "inform", 0.4
    return _of_verb(verb, known[0], objects), _SURE[known[1]]


def _of_verb(verb: str, tier: int, objects: set[str]) -> str:
    if verb in lex.DESTROYS or (verb in lex.REMOVES and objects & lex.HEAVY):
        return "destroy"
    if verb in lex.SENDS or (verb in lex.TEXT_MAKING_VERBS and objects & (lex.MAILS | lex.TALK)):
        return "communicate"
    if tier in (_COMMITS, _GRAVE) or (tier and objects & lex.COMMITMENTS):
        return "commit"
    if tier == 0:
        return "read"
    return "write"
