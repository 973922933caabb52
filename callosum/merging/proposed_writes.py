"""What a call would write into a file, read from its params. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import unified_diff
from itertools import islice
from typing import Any, Final

from msgspec import Struct

from callosum.model import Call, Classification, Mode, Tier
from callosum.rules.ruleset import WHOLE
from callosum.unclean import READINGS, UNREAD

FILE: Final = "file:"
_ABSOLUTE: Final = f"{FILE}/"
_HIGH: Final = Tier.HIGH  # an enum's attributes are slow
_PAIRS: Final = (("old_string", "new_string"), ("old_str", "new_str"), ("oldText", "newText"))
"""Hosts' names for the text that an edit searches for and the text that replaces it."""
_EVERYWHERE: Final = ("replace_all", "replaceAll", "allow_multiple")
_PATCHES: Final = ("command", "input", "patch")
_PATCH: Final = "*** Begin Patch"
_CONTEXTS: Final = (3, 8, 20)
"""Numbers of unchanged lines around a hunk, tried until the hunk fits in one place only."""
_SECTION: Final = re.compile(r"^\*\*\* (Add|Delete|Update|Move) (?:File|to): (.+?)[ \t]*$", re.MULTILINE)
_WRITE: Final = Mode.WRITE


class TextEdit(Struct, frozen=True, array_like=True):
    """Replace one text by another; ``everywhere``: at every occurrence."""

    old: str
    new: str
    everywhere: bool = False


class ProposedWrite(Struct, frozen=True, omit_defaults=True):
    """The write of a call to one file: its whole text (``whole``), or edits in order.

    ``param`` names the param with the whole text or the patch; it is "" if the edits have params of their own.
    """

    whole: str | None = None
    param: str = ""
    edits: tuple[TextEdit, ...] = ()

    def applied(self, text: str) -> str | None:
        """Return the file's text after the write, None if an edit does not fit exactly."""
        if self.whole is not None:
            return self.whole
        for edit in self.edits:
            count = text.count(edit.old) if edit.old else 0
            if count == 0 or (count > 1 and not edit.everywhere):
                return None
            text = text.replace(edit.old, edit.new)
        return text


def proposed_write(call: Call, classification: Classification, key: str) -> ProposedWrite | None:
    """Return what a call writes under a ``file:`` key, None if its params do not say it exactly."""
    params, keys = call.params, classification.keys
    if key[:6] != _ABSOLUTE or key[-1] == "/" or "|" in key:
        return None
    if classification.tier >= _HIGH or UNREAD in params or READINGS in params:
        return None  # its params may have been shortened or repaired on the way
    alone = not keys[1:] or [other.name for other in keys if other.mode is not Mode.READ] == [key]
    if classification.content.whole:
        if classification.content.repeats or not alone:
            return None  # it appends, or writes more than this file
        for name in WHOLE:
            if type(params.get(name)) is str:
                return ProposedWrite(params[name], name)
        return None
    several = params.get("edits")
    parsed = [_edit(item) for item in (several if isinstance(several, Sequence) else (params,))]
    edits, param = tuple([item for item in parsed if item is not None]), ""
    if not edits or len(edits) < len(parsed):
        param = next((n for n in _PATCHES if type(params.get(n)) is str and _PATCH in params[n]), "")
        edits = _patched(params[param], key[len(FILE) :]) if param else ()
    elif not alone:
        return None
    return ProposedWrite(param=param, edits=edits) if edits else None


def rewritten(
    params: Mapping[str, Any], path: str, write: ProposedWrite, before: str, after: str
) -> dict[str, Any] | None:
    """Return params that turn a file with text ``before`` into ``after``, None if there are none."""
    if write.whole is not None:
        return {**params, write.param: after}
    patch = _repatched(params[write.param], path, before, after)
    return {**params, write.param: patch} if patch is not None else None


def _edit(params: Any) -> TextEdit | None:
    for old, new in _PAIRS if isinstance(params, Mapping) else ():
        if type(params.get(old)) is str and type(params.get(new)) is str:
            return TextEdit(params[old], params[new], any(params.get(name) is True for name in _EVERYWHERE))
    return None


def _section(patch: str, path: str) -> tuple[int, int] | None:
    """Return the span of one file's hunks in a patch; None if the patch does more than change its lines."""
    sections = list(_SECTION.finditer(patch))
    name = path.rpartition("/")[2]
    matching = [n for n, section in enumerate(sections) if section[2].rpartition("/")[2] == name]
    if len(matching) != 1 or sections[matching[0]][1] != "Update":
        return None
    after = matching[0] + 1
    if after < len(sections) and sections[after][1] == "Move":
        return None
    end = sections[after].start() if after < len(sections) else patch.find("*** End Patch", sections[matching[0]].end())
    return sections[matching[0]].end(), end if end >= 0 else len(patch)


def _repatched(patch: str, path: str, before: str, after: str) -> str | None:
    """Return the patch with new hunks for one file, which turn ``before`` into ``after``.

    Returns None unless every program that applies patches surely finds the same place for each hunk.
    """
    span = _section(patch, path)
    if span is None or before[-1:] != "\n" or after[-1:] != "\n":
        return None
    old, new = before.split("\n")[:-1], after.split("\n")[:-1]
    for context in _CONTEXTS:
        lines = islice(unified_diff(old, new, lineterm="", n=context), 2, None)  # after the lines with the file names
        hunks = "".join(["@@\n" if line[:2] == "@@" else f"{line}\n" for line in lines])
        patched = f"{patch[: span[0]]}\n{hunks}{patch[span[1] :]}"
        if ProposedWrite(edits=_patched(patched, path)).applied(before) == after:
            return patched
    return None


def _patched(patch: str, path: str) -> tuple[TextEdit, ...]:
    """Return one file's hunks of a patch as edits; nothing if the patch does more than change its lines."""
    span = _section(patch, path)
    if span is None:
        return ()
    body = patch[span[0] : span[1]]
    edits = []
    for hunk in re.split(r"^@@.*$", body.replace("*** End of File\n", ""), flags=re.MULTILINE):
        lines = [line for line in hunk.split("\n") if line]
        if not lines:
            continue
        if any(line[0] not in " +-" for line in lines):
            return ()
        old = "".join([f"{line[1:]}\n" for line in lines if line[0] != "+"])
        new = "".join([f"{line[1:]}\n" for line in lines if line[0] != "-"])
        edits.append(TextEdit(old, new))
    return tuple(edits)
