"""Compare a write with the changes its session has not read, and merge it with them if possible.

This is the part of a gate outside its transactions: the gate calls it after a step has found unread changes, and then
decides again with the result.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from callosum.merging.hunks import are_apart, shown
from callosum.merging.merge_store import MergeRecord, MergeStore, merge_sentence
from callosum.merging.private_files import MAX_FILE
from callosum.merging.proposed_writes import FILE, ProposedWrite, proposed_write, rewritten
from callosum.merging.secret_check import looks_secret
from callosum.merging.snapshots import Snapshots, base_of, copy_of
from callosum.merging.three_way import merge, parses
from callosum.model import Action, Call, Classification, Event, Mode, State
from callosum.policy.call_facts import CallFacts, Decided
from callosum.policy.sentence import name
from callosum.policy.unread import Prepared
from callosum.redact import redact_text
from callosum.rulebook import Rulebook
from callosum.stores.base import Store

SNAPSHOTS: Final = "snapshots"
MERGES: Final = "merges"
"""Names of the folders in the state folder."""
_WRITES: Final = 500
"""Most journal entries of a session about a file that are searched for what it knows of the file."""
_ABSOLUTE: Final = f"{FILE}/"
_READ: Final = Mode.READ  # an enum's attributes are slow
_HAPPENED: Final = (State.OPEN, State.DONE)
_REPLACED: Final = ("originalFile", "originalContent")
"""Hosts' names for the file's text before the write, in a result or one level below."""


class WriteMerger:
    """Know what sessions read and wrote, and merge stale writes. ``folder`` is the gate's state folder."""

    def __init__(self, folder: Path, store: Store, rules: Rulebook) -> None:
        self.snapshots = Snapshots(folder / SNAPSHOTS)
        self.merges = MergeStore(folder / MERGES)
        self._scratch, self._state = folder / SNAPSHOTS, folder
        self._store = store
        self._rules = rules

    # --- reads and proposals ---------------------------------------------------------------------

    def begin(self, facts: CallFacts) -> None:
        """Note what is needed later of a call that is about to run: how the file it reads looks, what it writes."""
        call, classification, actor = facts.call, facts.classification, facts.actor
        keys = classification.keys
        if classification.effect == "read":
            if len(keys) == 1 and (path := _path(keys[0].name)):
                self.snapshots.begin(call.namespace, actor, path)
            return
        for key in keys:
            if key.mode is not _READ and (write := proposed_write(call, classification, key.name)) is not None:
                digest = classification.content.digest
                self.snapshots.proposed(call.namespace, actor, key.name[5:], digest, write)

    def is_reading(self, action: Action) -> bool:
        """Return True if ``has_read`` may copy the file that an action reads."""
        begun, keys = self.snapshots.begun, action.keys
        return bool(begun) and len(keys) == 1 and (action.namespace, action.session, _path(keys[0].name)) in begun

    def has_read(self, action: Action, result: Any) -> None:
        """Copy the file that a read saw, if its result shows all of it."""
        if len(action.keys) == 1 and (path := _path(action.keys[0].name)):
            self.snapshots.end(action.namespace, action.session, path, action.id, result)

    def hunk(self, call: Call, classification: Classification) -> str:
        """Return the lines that a call is about to change in a file, redacted; "" if they are not known exactly."""
        key = next((other.name for other in classification.keys if other.mode is not Mode.READ), "")
        write, path = proposed_write(call, classification, key), key[len(FILE) :]
        disk = copy_of(path) if write is not None else None
        after = write.applied(disk.text) if write is not None and disk is not None else None
        if disk is None or after is None or looks_secret(path, disk.text) or looks_secret(path, after):
            return ""
        return redact_text(shown(disk.text, after))

    def close(self) -> None:
        """Store the copies that still wait."""
        self.snapshots.later.finish()

    def prune(self) -> None:
        """Let the thread that stores copies remove those that are too old, and old merges: there may be thousands."""
        for folder in (self.snapshots.folder, self.merges.folder):
            self.snapshots.later.do(folder.prune, 0)

    # --- unread changes --------------------------------------------------------------------------

    def prepare(self, facts: CallFacts, decided: Decided) -> Prepared:
        """Return the result of comparing a call's writes with the unread changes in the ruling."""
        nothing = without_absent(decided)
        changed = {key for key, _, _, _ in decided.unread}
        keys = sorted(changed - nothing.absent)
        if nothing.gone or not keys:
            return nothing
        notes, lines = [], []
        for key in keys:
            comparison = self._compared(facts, decided, key)
            if not comparison.passes or comparison.params is not None:
                return replace(comparison, changes=decided.unread) if len(changed) == 1 else nothing
            notes += [comparison.note] * bool(comparison.note)
            lines += [comparison.shown] * bool(comparison.shown)
        return replace(nothing, passes=True, note=" ".join(notes), shown="\n".join(lines))

    def _compared(self, facts: CallFacts, decided: Decided, key: str) -> Prepared:
        path = key[len(FILE) :]
        write = proposed_write(facts.call, facts.classification, key)
        disk = copy_of(path) if write is not None else None
        if write is None or disk is None:
            return Prepared()
        base = self._base(facts, path, decided.own.get(key, 0))
        if base is None:
            return Prepared()
        changes = sorted(decided.unread, key=lambda change: -change[1])
        newest = next(filter(None, (self.merges.get(id) for _, id, _, _ in changes)), None)
        sentence = merge_sentence(newest, facts.actor) if newest is not None else ""
        if key in decided.running:
            return Prepared(passes=disk.text == base)
        if disk.text in (base, write.whole) or (write.whole is None and are_apart(write.edits, base, disk.text)):
            return Prepared(passes=True, note=sentence)
        merged = Prepared()
        if write.param and (proposal := write.applied(base)) is not None:
            merged = self._merged(facts, decided, path, write, proposal, base, disk.text)
        if merged == Prepared() and not looks_secret(path, disk.text):
            merged = Prepared(shown=f"What changed there since this session read it:\n{shown(base, disk.text)}")
        return replace(merged, note=" ".join(filter(None, (merged.note, sentence))))

    def _merged(
        self, facts: CallFacts, decided: Decided, path: str, write: ProposedWrite, proposal: str, base: str, disk: str
    ) -> Prepared:
        """Merge ``proposal``, the base with the call's write applied, with the text on disk."""
        if max(len(proposal), len(disk)) > MAX_FILE or looks_secret(path, disk) or looks_secret(path, proposal):
            return Prepared()
        result = merge(proposal, base, disk, scratch=self._scratch, state=self._state)
        if result is None:
            return Prepared()
        if result.conflicts:
            note = "This call's text and the other change do not merge: they touch the same lines."
            return Prepared(conflicting=True, note=note, shown=_conflicts(result.text))
        if result.text == proposal and write.whole is not None:
            return Prepared(passes=True)
        parsing = parses(path, result.text)
        if parsing != "yes":
            why = "does not parse" if parsing == "no" else "takes too long to parse"
            note = f"This call's text and the other change touch different lines, but the merged file {why}."
            return Prepared(conflicting=True, note=note, shown=shown(proposal, result.text))
        if not facts.call.rewrite:
            note = "This call's text and the other change merge: the lines below would be merged into it."
            return Prepared(note=note, shown=shown(proposal, result.text))
        params = rewritten(facts.call.params, path, write, disk, result.text)
        if params is None:
            return Prepared()
        others = tuple(sorted({session for _, _, _, session in decided.unread}))
        merged = MergeRecord(
            facts.actor,
            facts.call.tool,
            path,
            time.time(),
            others,
            proposal,
            disk,
            result.text,
            facts.call.namespace,
            folder=os.path.realpath(os.path.dirname(path)),  # noqa: PTH120
        )
        prepared = self.merges.prepare(merged)
        if not prepared:
            return Prepared()
        whole = self._rules.current().classify(replace(facts.call, params=params)).content.whole
        sessions = ", ".join(map(name, others)) or "another session"
        note = (
            f"Changes that {sessions} made there were merged into this call's text, and the merged text is what runs. "
            "Read the file before you write it again."
        )
        return Prepared(
            passes=True, params=params, whole=whole, note=note, shown=shown(proposal, result.text), kept=prepared
        )

    def _base(self, facts: CallFacts, path: str, own_write: int) -> str | None:
        """Return the file as the session knows it; None if nothing proves it."""
        call, actor = facts.call, facts.actor
        last = self._store.action(call.namespace, own_write) if own_write else None
        if last is not None and last.state in _HAPPENED:
            newest = self.snapshots.write_of(call.namespace, actor, path, last.content.digest)
            if newest is not None and newest.whole is not None:
                return newest.whole
        read = self.snapshots.seen(call.namespace, actor, path)
        since, text = read if read is not None else (0, None)
        done = list(self._writes(call.namespace, actor, path, since))
        if own_write > since and (not done or done[-1].id != own_write):
            return None  # its newest write is one of several at once
        writes = [
            self.snapshots.write_of(call.namespace, actor, path, action.content.digest)
            if action.state in _HAPPENED
            else None
            for action in done
        ]
        return base_of(text, writes)

    def _writes(self, namespace: str, session: str, path: str, since: int) -> Iterator[Action]:
        """Yield the session's writes to the file, including possible ones, oldest first."""
        entries = self._store.entries(
            namespace=namespace, session=session, key=f"{FILE}{path}", newest=True, limit=_WRITES, after=since
        )
        for entry in entries:
            if entry.event not in (Event.INTERCEPT, Event.LATE) or entry.action != entry.seq:
                continue
            if all(key.mode is Mode.READ for key in entry.keys):
                continue
            action = self._store.action(namespace, entry.seq)
            if action is not None and action.state in (*_HAPPENED, State.UNKNOWN):
                yield action

    # --- merges that run --------------------------------------------------------------------------

    def keep(self, prepared: Prepared, id: int) -> bool:
        """Store a merge that is about to run; return True if it is stored."""
        return self.merges.keep(prepared.kept, id)

    def drop(self, prepared: Prepared | None) -> None:
        """Remove a merge that was prepared and did not run."""
        if prepared is not None and prepared.kept:
            self.merges.drop(prepared.kept)

    def params_of(self, call: Call, classification: Classification, id: int) -> Mapping[str, Any] | None:
        """Return the params with which a merged call runs when it is asked again; None if they are gone."""
        merged = self.merges.get(id)
        write = proposed_write(call, classification, f"{FILE}{merged.path}") if merged is not None else None
        if merged is None or write is None or not write.param:
            return None
        return rewritten(call.params, merged.path, write, merged.before, merged.merge)

    def has_written(self, action: Action, result: Any, *, failed: bool = False) -> str:
        """Return a note for the session about what its merged write overwrote; "" if it overwrote nothing.

        If the host reports the text that it replaced, it must equal the text that was merged. Otherwise the file must
        hold the merge.
        """
        merged = self.merges.get(action.id)
        if merged is None:
            return ""
        replaced = _replaced(result)
        if replaced is not None and replaced.replace("\r\n", "\n") != merged.before.replace("\r\n", "\n"):
            lost = shown(merged.before, replaced)
            note = f"The file had changed once more before the merge was written, and that was overwritten:\n{lost}"
        else:
            disk = copy_of(merged.path)
            if disk is not None and (disk.text == merged.merge or (failed and disk.text == merged.before)):
                return ""
            note = "The file does not hold the merge: something else was written there"
            hidden = disk is None or looks_secret(merged.path, disk.text)
            note += "." if disk is None or hidden else f":\n{shown(merged.merge, disk.text)}"
        self.merges.note_loss(merged, note)
        return f"{note}\n`callosum merges show {action.id}` shows the merge and the texts it was made of."


def without_absent(decided: Decided) -> Prepared:
    """Return which of the changed files do not exist, by whether the session ever read them."""
    changed = {key for key, _, _, _ in decided.unread}
    missing = frozenset([key for key in changed if _is_absent(key[len(FILE) :])])
    return Prepared(decided.unread, absent=missing & decided.unseen, gone=missing - decided.unseen)


def _is_absent(path: str) -> bool:
    try:
        os.lstat(path)
    except (OSError, ValueError) as error:  # what cannot be seen may exist
        return isinstance(error, (FileNotFoundError, NotADirectoryError))
    return False


def _path(key: str) -> str:
    """Return the absolute path in the key of one file, "" for any other key."""
    return key[5:] if key[:6] == _ABSOLUTE and key[-1] != "/" and "|" not in key else ""


def _replaced(result: Any) -> str | None:
    """Return the text that a host reports to have replaced."""
    for part in (result, *result.values()) if isinstance(result, Mapping) else ():
        for field in _REPLACED if isinstance(part, Mapping) else ():
            if isinstance(part.get(field), str):
                return str(part[field])
    return None


def _conflicts(text: str) -> str:
    """Return the conflicting hunks of a merge, as git marks them."""
    hunks: list[str] = []
    inside = False
    for line in text.split("\n"):
        inside = inside or line.startswith("<<<<<<< ")
        if inside:
            hunks.append(line)
        if line.startswith(">>>>>>> "):
            inside = False
    return shown("", "\n".join(hunks))
