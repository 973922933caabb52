"""One line that says what an action did, made from what the journal keeps of its params.

The line is made when it is read and never when a call is made, because most calls are never read. The params are those
left by redaction, so a summary shows no more than the journal does, and nothing if the journal keeps no params.

Every piece of a param is quoted: it is another session's data and must not look like a sentence of the gate.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import zip_longest
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from callosum.characters import escaped, with_hidden
from callosum.model import MAX_SUMMARY, Entry
from callosum.redact import MARKER, quote

_SHORT: Final = 60
"""Maximum length of one piece of a summary that has several, in characters."""
_DEPTH: Final = 3
_VALUES: Final = 64
_OTHERS: Final = 3
"""Number of params shown for a call of no known kind."""
HUNK: Final = 20
"""Maximum number of lines in a hunk."""
_WIDTH: Final = 160
"""Maximum length of a line of a hunk, in characters."""
_COMPARED: Final = 200
"""Lines of an edit's texts that are compared. A journal that keeps whole params has more."""
_CONTEXT: Final = 2
"""Maximum number of unchanged lines that a hunk shows before a change, and after it."""


def _names(text: str) -> dict[str, int]:
    return {name: rank for rank, name in enumerate(text.split())}


_COMMANDS: Final = _names("command cmd commandline script sql statement code")
_SUBJECTS: Final = _names("subject title summary headline eventname name")
_TEXTS: Final = _names("body message text content comment caption description note msg markdown html prompt reason")
_AMOUNTS: Final = _names("amount total sum price amountcents")
_CURRENCIES: Final = _names("currency currencycode")
_PAYEES: Final = _names("recipient to payee beneficiary toaccount destination iban account receiver customer user")
_STARTS: Final = _names("start starttime startdate startsat startat begin datetime when scheduledat time date due")
_PATHS: Final = _names("filepath path file filename absolutepath targetfile notebookpath")
_WHOLE: Final = _names("content contents filetext newcontent filecontent newsource")
_PATCHES: Final = _names("patch diff input")
_PAIRS: Final = (
    ("oldstring", "newstring"), ("oldstr", "newstr"), ("oldtext", "newtext"), ("oldcontent", "newcontent"),
    ("search", "replace"),
)  # fmt: skip
"""Names of the params in which tools put the text that an edit replaces, and its replacement."""
_EDITS: Final = ("edits", "changes", "replacements", "operations")
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,39}")
_CUT: Final = re.compile(r"… \((\d+) characters\)\Z")
"""The end that redaction puts on a text that it cut."""
_SCOPE: Final = re.compile(
    r"^[ \t]*(?:(?:export|default|pub(?:\([a-z]+\))?|async|static|public|private|protected|final|abstract)[ \t]+)*"
    r"(?:(def|function|func|fn|sub)|class|struct|interface|impl|trait|enum)[ \t]+(?:\([^()\n]{0,80}\)[ \t]*)?"
    r"([A-Za-z_][A-Za-z0-9_]{0,39})",
    re.MULTILINE,
)
"""The first line of a function (then the first group matches) or of a class, in most languages."""


class JournalledCall(Struct, frozen=True, gc=False):
    """The parts of a journal entry's body that say what an action did, and what a person was asked or said about it."""

    params: Any = None
    summary: str = ""
    purpose: str = ""
    hunk: str = ""
    note: str = ""
    asks: bool = False


NOTHING_JOURNALLED: Final = JournalledCall()
_kept_of = msgspec.json.Decoder(JournalledCall).decode


def journalled_call(body: bytes | Mapping[str, Any]) -> JournalledCall:
    """Return what a body (JSON or decoded) says about its action; empty if the body cannot be read."""
    try:
        return _kept_of(body) if isinstance(body, bytes) else msgspec.convert(body, JournalledCall)
    except msgspec.DecodeError:
        return NOTHING_JOURNALLED


@lru_cache(maxsize=64)  # the next call mostly conflicts with the same actions
def summary_and_purpose(body: bytes, key: str) -> tuple[str, str]:
    """Return an action's summary, as it is shown beside ``key``, and its purpose, from the body of its entry."""
    kept = journalled_call(body)
    return summary_of(kept, key), kept.purpose


def summary_of(kept: JournalledCall, key: str = "", limit: int = MAX_SUMMARY) -> str:
    """Return what the action did in at most ``limit`` characters; ``""`` if nothing is known about it.

    ``key`` is shown beside the summary, so params that only repeat it are left out if others say more.
    """
    if kept.summary:
        return shown(kept.summary, limit - 2)
    if not isinstance(kept.params, Mapping):
        return ""
    fields = _Fields(kept.params, key.lower())
    line = next(filter(None, (kind(fields) for kind in _KINDS)), "")
    if len(line) <= limit:
        return line
    kept_part = line[: limit - 2].rstrip()
    return f'{kept_part}…"' if kept_part.count('"') % 2 else f"{kept_part}…"


def shown(text: str, limit: int) -> str:
    """Return text from elsewhere as data: on one line, in quotes, with its hidden characters escaped."""
    return quote(escaped(" ".join(text[: 8 * limit].split())), limit)


_SAID: Final = ("summary", "purpose", "details", "hunk")


def forgetting(entry: Entry) -> Entry:
    """Return an entry that is no longer evidence, without the texts that sessions supplied.

    Those are what sessions said of themselves and what others were told of it.
    """
    body = entry.body
    conflicts = body.get("conflicts")
    if not conflicts and not any(name in body for name in _SAID):
        return entry
    kept = {name: value for name, value in body.items() if name not in _SAID}
    if conflicts:
        plain = msgspec.to_builtins(conflicts)
        kept["conflicts"] = [{name: one[name] for name in one if name not in _SAID} for one in plain]
    return replace(entry, body=kept)


class _Fields:
    """The texts and numbers of params by name, ignoring case and punctuation. Of equal names the outermost counts."""

    def __init__(self, params: Mapping[str, Any], key: str) -> None:
        self.params, self.key = params, key
        self.values: dict[str, str] = {}
        self.named: dict[str, str] = {}
        """How a name is written."""
        for name, value in sorted(_leaves(params, _DEPTH), key=lambda leaf: leaf[0].count("."))[:_VALUES]:
            plain = name.rpartition(".")[2]
            self.named.setdefault(_bare(plain), plain)
            for one in (plain, name.partition(".")[0]):  # {"start": {"dateTime": ...}}
                self.values.setdefault(_bare(one), value)

    def first(self, names: Mapping[str, int]) -> str:
        """Return the value under the first of these names that has one."""
        found = min(names.keys() & self.values.keys(), key=names.__getitem__, default="")
        return self.values.get(found, "")


def _leaves(params: Mapping[str, Any], depth: int, prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in list(params.items())[:_VALUES]:
        if isinstance(value, Mapping):
            if depth > 1:
                yield from _leaves(value, depth - 1, f"{prefix}{name}.")
        elif isinstance(value, Sequence) and not isinstance(value, str):
            texts = [str(item) for item in value[:4] if isinstance(item, str | int | float)]
            if texts:
                yield prefix + name, ", ".join(texts) + (", …" if len(value) > len(texts) else "")
        elif value is not None and value != "":
            yield prefix + name, str(value)


def _bare(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


# --- Kinds of calls, in the order in which they are tried ------------------------------------------------------


def _edit(fields: _Fields) -> str:
    """Return a summary such as ``+3 -1 in checkout()``."""
    changes = changes_in(fields.params)
    if not changes:
        return ""
    added = sum(len(change.added) for change in changes)
    removed = sum(len(change.removed) for change in changes)
    more = " or more lines" if any(change.cut for change in changes) else ""
    where = next(filter(None, (change.scope for change in changes)), "")
    return f"+{added} -{removed}{more}" + (f" in {where}" if where else "")


def _command(fields: _Fields) -> str:
    command = fields.first(_COMMANDS)
    return shown(_uncut(command), MAX_SUMMARY - 2) if command else ""


def _payment(fields: _Fields) -> str:
    amount, payee = fields.first(_AMOUNTS), fields.first(_PAYEES)
    if not (payee and any(sign.isdigit() for sign in amount)):
        return ""
    currency, subject = fields.first(_CURRENCIES), fields.first(_SUBJECTS)
    said = f"{shown(f'{amount} {currency}'.strip(), 24)} to {shown(payee, _SHORT)}"
    return f"{said}, {shown(_uncut(subject), 40)}" if subject else said


def _file(fields: _Fields) -> str:
    text = fields.first(_WHOLE)
    if not text or not fields.first(_PATHS):
        return ""
    cut = _CUT.search(text)
    lines = len(text.splitlines())
    size = f"{cut[1]} characters" if cut else "1 line" if lines == 1 else f"{lines} lines"
    return f"{size}, {shown(_uncut(text), _SHORT)}"


def _event(fields: _Fields) -> str:
    title, start = fields.first(_SUBJECTS), fields.first(_STARTS)
    return f"{shown(_uncut(title), _SHORT)} at {shown(start, 40)}" if title and start else ""


def _message(fields: _Fields) -> str:
    subject, text = fields.first(_SUBJECTS), fields.first(_TEXTS)
    if not (subject and text):
        return shown(_uncut(subject or text), MAX_SUMMARY - 2) if subject or text else ""
    head = shown(_uncut(subject), _SHORT)
    return f"{head}: {shown(_uncut(text), MAX_SUMMARY - len(head) - 4)}"


def _other(fields: _Fields) -> str:
    """Return the first params with their names."""
    pieces = []
    for name, value in fields.values.items():
        if name in fields.named and value != MARKER and value.lower() not in fields.key:
            written = fields.named[name]
            label = written if _PLAIN.fullmatch(written) else shown(written, 40)
            pieces.append(f"{label} {shown(_uncut(value), 40)}")
    more = f" and {len(pieces) - _OTHERS} more" if len(pieces) > _OTHERS else ""
    return ", ".join(pieces[:_OTHERS]) + more


_KINDS: Final = (_edit, _command, _payment, _file, _event, _message, _other)


def _uncut(text: str) -> str:
    """Return a text as far as redaction kept it, with an ellipsis if redaction cut it."""
    return _CUT.sub("…", text)


# --- Edits --------------------------------------------------------------------------------------------


class Edit(NamedTuple):
    """One place that an edit changes: the lines before it, the removed lines, the added lines, and the lines after it.

    ``scope`` is the function (``checkout()``) or class around it, if the text shows one. ``cut`` says that not all
    lines were kept. ``near`` says that only a few lines separate this place from the previous one; ``before`` holds
    them.
    """

    before: tuple[str, ...]
    removed: tuple[str, ...]
    added: tuple[str, ...]
    after: tuple[str, ...]
    scope: str = ""
    cut: bool = False
    near: bool = False


def changes_in(params: Mapping[str, Any]) -> list[Edit]:
    """Return the places that an edit changes; empty for the params of any other call."""
    plain = {_bare(name): value for name, value in list(params.items())[:_VALUES]}
    for old, new in _PAIRS:
        if isinstance(plain.get(old), str) and isinstance(plain.get(new), str):
            return _changed(plain[old], plain[new])
    for name in _EDITS:
        several = plain.get(name)
        if isinstance(several, Sequence) and not isinstance(several, str):
            found = [edit for one in several[:16] if isinstance(one, Mapping) for edit in changes_in(one)]
            if found:
                return found
    for name in _PATCHES:
        text = plain.get(name)
        if isinstance(text, str) and (edit := _patched(text)) is not None:
            return [edit]
    return []


def _changed(old: str, new: str) -> list[Edit]:
    was, now = _lines(old), _lines(new)
    cut = _CUT.search(old) is not None or _CUT.search(new) is not None or max(len(was), len(now)) > _COMPARED
    was, now = was[:_COMPARED], now[:_COMPARED]
    places = SequenceMatcher(None, was, now, autojunk=False).get_opcodes()
    found: list[Edit] = []
    for number, (what, start, end, first, last) in enumerate(places):
        if what == "equal":
            continue
        before = was[places[number - 1][1] : start] if number else []
        after = was[end : places[number + 1][2]] if number + 1 < len(places) else []
        scope = _scope_in("\n".join(was[: start + 1])) or _scope_in("\n".join(now[: first + 1]))
        near = bool(found) and len(before) <= 2 * _CONTEXT
        found.append(Edit(tuple(before), tuple(was[start:end]), tuple(now[first:last]), tuple(after), scope, cut, near))
    return found


def _patched(text: str) -> Edit | None:
    """Parse a patch as one change: its lines that begin with a plus or a minus."""
    lines = _lines(text)
    if not any(line.startswith(("@@", "--- ", "*** ")) for line in lines):
        return None
    body = [line for line in lines if not line.startswith(("+++", "---", "***"))]
    heads = [line.rpartition("@@")[2] for line in lines if line.startswith("@@")]
    removed, added = (tuple([line[1:] for line in body if line.startswith(sign)]) for sign in "-+")
    scope = next(filter(None, (_scope_in(head.strip()) for head in heads)), "")
    return Edit((), removed, added, (), scope, _CUT.search(text) is not None)


def _lines(text: str) -> list[str]:
    lines = _CUT.sub("", text).split("\n")
    return lines[:-1] if len(lines) > 1 and not lines[-1] else lines


def _scope_in(text: str) -> str:
    """Return the last function or class whose first line is in a text."""
    found = [f"{one[2]}()" if one[1] else one[2] for one in _SCOPE.finditer(text)]
    return found[-1] if found else ""


def hunk_of(kept: JournalledCall) -> tuple[str, ...]:
    """Return what an edit changed as lines of a unified diff, at most ``HUNK`` lines; empty for any other call.

    Each line begins with ``| ``, so that a line of a file cannot be taken for one of the gate's.
    """
    if kept.hunk:
        return tuple(kept.hunk.split("\n"))
    edits = changes_in(kept.params) if isinstance(kept.params, Mapping) else []
    lines: list[str] = []
    for edit, following in zip_longest(edits, edits[1:]):
        if not edit.near:
            lines.append(f"@@ {edit.scope}".rstrip())
        lines += [f" {line}" for line in edit.before[-(2 if edit.near else 1) * _CONTEXT :]]
        lines += [f"-{line}" for line in edit.removed]
        lines += [f"+{line}" for line in edit.added]
        if following is None or not following.near:
            lines += [" …"] if edit.cut else [f" {line}" for line in edit.after[:_CONTEXT]]
    if len(lines) > HUNK:
        lines = [*lines[: HUNK - 1], f"… {len(lines) - HUNK + 1} more lines"]
    return tuple([f"| {_line(line)}" for line in lines])


def _line(text: str) -> str:
    """Return one line of a file with its indentation, and with invisible characters escaped."""
    seen = escaped(text[: 2 * _WIDTH].removesuffix("\r").expandtabs(4))
    seen = with_hidden(seen, lambda char: " " if char.isspace() else "\ufffd")
    return seen if len(seen) <= _WIDTH else f"{seen[: _WIDTH - 1]}…"
