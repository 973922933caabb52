"""What a call would write into a file, read from its params. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import unified_diff
from itertools import islice
from typing import Any, Final

from msgspec import Struct

from callosum.budget import UNREAD
from callosum.model import Call, Classification, Mode, Tier
from callosum.rules.ruleset import WHOLE

FILE: Final = "file:"
_PAIRS: Final = (("old_string", "new_string"), ("old_str", "new_str"), ("oldText", "newText"))
"""How hosts call the text that an edit looks for, and the text that it puts in its place."""
_EVERYWHERE: Final = ("replace_all", "replaceAll", "allow_multiple")
_PATCHES: Final = ("command", "input", "patch")
_PATCH: Final = "*** Begin Patch"
_CONTEXTS: Final = (3, 8, 20)
"""Numbers of unchanged lines around a hunk that are tried until its place is the only one."""
_SECTION: Final = re.compile(r"^\*\*\* (Add|Delete|Update|Move) (?:File|to): (.+?)[ \t]*$", re.MULTILINE)
_WRITE: Final = Mode.WRITE


class TextEdit(Struct, frozen=True, array_like=True):
    """One text put in another's place; ``everywhere``: wherever it occurs."""

    old: str
    new: str
    everywhere: bool = False


class ProposedWrite(Struct, frozen=True, omit_defaults=True):
    """What a call writes into one file: all of it (``whole``), or some edits, in order.

    ``param`` holds the whole text, or the patch that the edits were read from; "" for edits in params of their own.
    """

    whole: str | None = None
    param: str = ""
    edits: tuple[TextEdit, ...] = ()

    def applied(self, text: str) -> str | None:
        """Return the file's text afterwards, None if an edit does not fit exactly."""
        if self.whole is not None:
            return self.whole
        for edit in self.edits:
            count = text.count(edit.old) if edit.old else 0
            if count == 0 or (count > 1 and not edit.everywhere):
                return None
            text = text.replace(edit.old, edit.new)
        return text


def proposed_write(call: Call, found: Classification, key: str) -> ProposedWrite | None:
    """Return what a call writes under a ``file:`` key, None where its params do not say it exactly."""
    path = key[len(FILE) :]
    params = call.params
    if key[: len(FILE)] != FILE or path[:1] != "/" or path[-1:] == "/" or "|" in path:
        return None
    if found.tier >= Tier.HIGH or UNREAD in params:
        return None  # its params may have been shortened on their way
    if found.content.whole:
        if found.content.repeats or [one.name for one in found.keys if one.mode is not Mode.READ] != [key]:
            return None  # it appends, or makes more than this file
        name = next((name for name in WHOLE if type(params.get(name)) is str), "")
        return ProposedWrite(params[name], name) if name else None
    edits, param = _edits(params), ""
    if not edits:
        param = next((n for n in _PATCHES if type(params.get(n)) is str and _PATCH in params[n]), "")
        edits = _patched(params[param], path) if param else ()
    elif [one.name for one in found.keys if one.mode is not Mode.READ] != [key]:
        return None
    return ProposedWrite(param=param, edits=edits) if edits else None


def rewritten(
    params: Mapping[str, Any], path: str, write: ProposedWrite, before: str, after: str
) -> dict[str, Any] | None:
    """Return params with which the call makes ``after`` of a file that holds ``before``, None if there are none."""
    if write.whole is not None:
        return {**params, write.param: after}
    patch = _repatched(params[write.param], path, before, after)
    return {**params, write.param: patch} if patch is not None else None


def _edits(params: Mapping[str, Any]) -> tuple[TextEdit, ...]:
    several = params.get("edits")
    found = [_edit(one) for one in (several if isinstance(several, Sequence) else (params,))]
    edits = tuple([one for one in found if one is not None])
    return edits if len(edits) == len(found) else ()


def _edit(params: Any) -> TextEdit | None:
    for old, new in _PAIRS if isinstance(params, Mapping) else ():
        if type(params.get(old)) is str and type(params.get(new)) is str:
            return TextEdit(params[old], params[new], any(params.get(name) is True for name in _EVERYWHERE))
    return None


def _section(patch: str, path: str) -> tuple[int, int] | None:
    """Return where the hunks of one file stand in a patch; None if the patch does more to it than change lines."""
    sections = list(_SECTION.finditer(patch))
    name = path.rpartition("/")[2]
    mine = [n for n, one in enumerate(sections) if one[2].rpartition("/")[2] == name]
    if len(mine) != 1 or sections[mine[0]][1] != "Update":
        return None
    after = mine[0] + 1
    if after < len(sections) and sections[after][1] == "Move":
        return None
    end = sections[after].start() if after < len(sections) else patch.find("*** End Patch", sections[mine[0]].end())
    return sections[mine[0]].end(), end if end >= 0 else len(patch)


def _repatched(patch: str, path: str, before: str, after: str) -> str | None:
    """Return the patch with other hunks for one file, which make ``after`` of ``before``.

    None if it is not sure that every program that applies patches finds the same place for each hunk.
    """
    found = _section(patch, path)
    if found is None or before[-1:] != "\n" or after[-1:] != "\n":
        return None
    old, new = before.split("\n")[:-1], after.split("\n")[:-1]
    for context in _CONTEXTS:
        lines = islice(unified_diff(old, new, lineterm="", n=context), 2, None)  # behind the names of the files
        hunks = "".join(["@@\n" if line[:2] == "@@" else f"{line}\n" for line in lines])
        again = f"{patch[: found[0]]}\n{hunks}{patch[found[1] :]}"
        if ProposedWrite(edits=_patched(again, path)).applied(before) == after:
            return again
    return None


def _patched(patch: str, path: str) -> tuple[TextEdit, ...]:
    """Return the hunks of one file of a patch as edits; nothing if the patch does more to it than change lines."""
    found = _section(patch, path)
    if found is None:
        return ()
    body = patch[found[0] : found[1]]
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
