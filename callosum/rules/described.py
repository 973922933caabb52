"""What a tool's author says of it besides its name: the description, the names of its params.

It fills what the name leaves open and raises where it tells of an effect; it never makes a plain
write a read. Descriptions are read as far as ``MAX_TEXT`` characters, and kept for the last few
hundred tools.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from callosum.rules import lexicon as lex
from callosum.rules.lexicon import lists
from callosum.rules.name import leading_verb, opening_verb

if TYPE_CHECKING:
    from callosum.rules.name import Name

MAX_TEXT: Final = 2048

_FINAL: Final = re.compile(
    r"permanent|cannot be undone|can't be undone|irreversib|not reversible|unrecoverable", re.IGNORECASE
)
_AFTERWARDS: Final = re.compile(
    r"\b(?:are|is|be|gets?) (?:also |then |automatically |immediately |permanently )?"
    r"(?:marked|deleted|removed|archived|consumed|charged|billed|notified|emailed|sent|reset|cleared|cancell?ed)\b"
    r"[^.\n]{0,60}\b(?:after|once|afterwards|automatically|upon|when this)\b"
    r"|\b(?:also|then|automatically) "
    r"(?:marks|deletes|removes|archives|consumes|charges|notifies|emails|sends|triggers|clears|cancels) "
    r"|\bor (?:creates?|adds?|registers?) (?:\w+ ){0,4}if (?:not|none|no|it|they|there)\b",
    re.IGNORECASE,
)


@lru_cache(maxsize=512)
def _read(text: str) -> tuple[str, bool, bool, str]:
    return (
        leading_verb(text),
        _AFTERWARDS.search(text) is not None,
        _FINAL.search(text) is not None,
        opening_verb(text),
    )


def lead(description: str | None) -> str:
    """Return the verb a description begins with, ``""`` if it has none that is known."""
    return _read(description[:MAX_TEXT])[0] if description else ""


def acts_besides(description: str | None) -> bool:
    """Tells whether a description speaks of something that a look also does (``are marked as read after``)."""
    return _read(description[:MAX_TEXT])[1] if description else False


def keeps(name: Name, description: str | None, given: Mapping[str, Any]) -> bool:
    """Tells whether what is downloaded is kept on this machine; so it is where nothing says otherwise.

    ``given`` are arguments or a schema's properties. What comes back as an answer is kept nowhere.
    """
    if not description or not given or name.place == "file" or not LEFT.isdisjoint(given):
        return True
    said = lead(description)
    if said and lex.VERBS[said][0] and said not in lex.YIELDS:
        return True  # ``download_photo``: "Trigger a download event"
    return _KEPT.search(description[:MAX_TEXT]) is not None


_KEPT: Final = re.compile(
    r"\b(?:sav(?:e|es|ed|ing)|stor(?:e|es|ed|ing)|writ(?:e|es|ten)|disk|local\w*|location|director(?:y|ies)|output\w*)\b"
    r"|/tmp\b",
    re.IGNORECASE,
)


def final(description: str | None) -> bool:
    """Tells whether a description says that the act cannot be undone."""
    return _read(description[:MAX_TEXT])[2] if description else False


def settled(name: Name, description: str | None) -> str:
    """Return the verb that the description puts in the place of the name's, ``""`` to leave the name's.

    It decides between two verbs of a name and where the name's is more of a noun. It raises where
    the name's verb is of the kind that looks by doing something (``verify``, ``test``).
    """
    said = lead(description)
    same = _read(description[:MAX_TEXT])[3] if description else ""
    if same in name.words and same != name.verb and lex.VERBS[same][0] > name.tier:
        return same  # both call it by this word: ``boost_status``, "Boosts a status"
    if not said or said == name.verb or (said == "get" and name.verb == "return"):
        return ""
    grave = lex.VERBS[said][0]
    if not name.verb:
        return said
    if name.rival:
        return name.rival if (grave == 0) == (lex.VERBS[name.rival][0] == 0) else ""
    if said in lex.RUNS and name.verb == "test" and not _TRYING.search(description[:_OPENING] if description else ""):
        return said  # ``test_workflow``: "Run a workflow"
    if said in lex.GENERIC or said in lex.YIELDS or lex.VERBS[said][1] < lex.STRONG:
        return ""
    if grave == 0:
        return "" if name.firm or name.tier == 0 else said
    return said if name.tier == 0 and (not name.firm or name.verb in lex.TRIES) else ""


_OPENING: Final = 80
_TRYING: Final = re.compile(r"\b(?:test|check|diagnos|valid|verif|connect|dry|simulat)", re.IGNORECASE)
"""What a run that only tries something speaks of."""


def properties(schema: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the params a tool's schema tells of, none where it tells of none.

    An only param that is an object holds them (``{"params": {...}}``).
    """
    found = schema.get("properties") if schema else None
    if not isinstance(found, Mapping):
        return {}
    if len(found) == 1:
        ((name, only),) = found.items()
        inner = only.get("properties") if name in lex.WRAPPER_PARAMS and isinstance(only, Mapping) else None
        if isinstance(inner, Mapping):
            return inner
    return found


def _spellings(*names: str) -> frozenset[str]:
    found = set()
    for name in names:
        parts = name.split("_")
        found |= {name, name.replace("_", "-"), "".join(parts), parts[0] + "".join(map(str.capitalize, parts[1:]))}
    return frozenset(found)


OUTPUTS: Final = _spellings(
    *(
        f"{way}_{what}"
        for way in ("output", "out", "save", "download", "export", "local_output", "local")
        for what in lists.FILE_PARAMS
    ),
    *(f"{way}_to" for way in ("output", "save", "write", "download", "export", "dump")),
    *("save_as", "outdir", "outfile"),
)
"""Params that say where what was looked at is written."""
_TARGETS: Final = _spellings(*lists.FILE_PARAMS)
LEFT: Final = OUTPUTS | _TARGETS
"""Without any of these a look leaves no file."""


def outputs(name: Name, given: Mapping[str, Any]) -> list[str]:
    """Return where a look leaves a file, by the names of its params (``outputDir``; ``screenshot`` to a path).

    ``given`` are arguments or a schema's properties: for those the names of the params stand.
    """
    found: frozenset[str] = frozenset()
    if not OUTPUTS.isdisjoint(given):
        found = OUTPUTS
    elif not _TARGETS.isdisjoint(given) and not lex.PICTURES.isdisjoint(name.words):
        found = _TARGETS
    return [
        value if isinstance(value, str) else param
        for param, value in given.items()
        if param in found and value is not None and value != ""
    ]
