"""Compare a write with the changes that its session has not read, and merge it with them where that is possible.

This is what a gate does outside of its transactions: ``Courses`` calls it after a step has met unread changes, and
decides again with what it found.
"""

from __future__ import annotations

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
from callosum.model import Action, Call, Classification, Event, Key, Mode, State
from callosum.policy.ask import Ask, Ruling
from callosum.policy.sentence import name
from callosum.policy.unread import Prepared
from callosum.redact import redact_text
from callosum.rulebook import Rulebook
from callosum.stores.base import Store

SNAPSHOTS: Final = "snapshots"
MERGES: Final = "merges"
"""Names of the folders in the state folder."""
_WRITES: Final = 500
"""Most journal entries of a session about a file that are looked at for what it knows of the file."""
_HAPPENED: Final = (State.OPEN, State.DONE)
_REPLACED: Final = ("originalFile", "originalContent")
"""What hosts call the file as it was before the write, in a result or one level below."""


class WriteMerger:
    """What is known of files and of those who write them. ``folder`` is the gate's state folder."""

    def __init__(self, folder: Path, store: Store, rules: Rulebook) -> None:
        self.snapshots = Snapshots(folder / SNAPSHOTS)
        self.merges = MergeStore(folder / MERGES)
        self._scratch = folder / SNAPSHOTS
        self._store = store
        self._rules = rules

    # --- what sessions see and propose -----------------------------------------------------------

    def read(self, call: Call, found: Classification) -> None:
        """Copy the file that a call is about to read, if it is just one."""
        if len(found.keys) == 1 and (path := _path(found.keys[0].name)):
            self.snapshots.look(call.namespace, call.actor, path)

    def has_read(self, action: Action, result: Any) -> None:
        """Keep the copy of a read that is done, if its result shows the whole file."""
        if len(action.keys) == 1 and (path := _path(action.keys[0].name)):
            self.snapshots.looked(action.namespace, action.session, path, action.id, result)

    def writes(self, call: Call, found: Classification, key: Key) -> None:
        """Keep what a call proposes for a file."""
        write = proposed_write(call, found, key.name)
        if write is not None:
            digest = found.content.digest
            self.snapshots.proposed(call.namespace, call.actor, key.name[len(FILE) :], digest, write)

    def hunk(self, call: Call, found: Classification) -> str:
        """Return the lines that a call is about to change in a file, redacted; "" where that is not known exactly."""
        key = next((one.name for one in found.keys if one.mode is not Mode.READ), "")
        write, path = proposed_write(call, found, key), key[len(FILE) :]
        disk = copy_of(path) if write is not None else None
        after = write.applied(disk.text) if write is not None and disk is not None else None
        if disk is None or after is None or looks_secret(path, disk.text) or looks_secret(path, after):
            return ""
        return redact_text(shown(disk.text, after))

    def close(self) -> None:
        """Keep what is still to be kept."""
        self.snapshots.later.finish()

    def prune(self) -> None:
        """Forget what was kept for long enough."""
        for folder in (self.snapshots.folder, self.merges.folder):
            folder.prune()

    # --- unread changes --------------------------------------------------------------------------

    def prepare(self, ask: Ask, ruling: Ruling) -> Prepared:
        """Return what there is to know of a call's write over the ruling's unread changes."""
        nothing = Prepared(ruling.unread)
        keys = sorted({key for key, _, _, _ in ruling.unread})
        notes, lines = [], []
        for key in keys:
            one = self._compared(ask, ruling, key)
            if not one.passes or one.params is not None:
                return replace(one, changes=ruling.unread) if len(keys) == 1 else nothing
            notes += [one.note] * bool(one.note)
            lines += [one.shown] * bool(one.shown)
        return Prepared(ruling.unread, passes=True, note=" ".join(notes), shown="\n".join(lines))

    def _compared(self, ask: Ask, ruling: Ruling, key: str) -> Prepared:
        path = key[len(FILE) :]
        write = proposed_write(ask.call, ask.found, key)
        disk = copy_of(path) if write is not None else None
        if write is None or disk is None:
            return Prepared()
        base = self._base(ask, path, ruling.own.get(key, 0))
        if base is None:
            return Prepared()
        told = self._told(ruling, ask.actor)
        if disk.text in (base, write.whole) or (write.whole is None and are_apart(write.edits, base, disk.text)):
            return Prepared(passes=True, note=told)
        merged = Prepared()
        if write.param and (mine := write.applied(base)) is not None:
            merged = self._merged(ask, ruling, path, write, mine, base, disk.text)
        if merged == Prepared() and not looks_secret(path, disk.text):
            merged = Prepared(shown=f"What changed there since this session read it:\n{shown(base, disk.text)}")
        return replace(merged, note=" ".join(filter(None, (merged.note, told))))

    def _merged(
        self, ask: Ask, ruling: Ruling, path: str, write: ProposedWrite, mine: str, base: str, disk: str
    ) -> Prepared:
        """Merge what the call makes of the base, which is ``mine``, with what is on the disk."""
        if max(len(mine), len(disk)) > MAX_FILE or looks_secret(path, disk) or looks_secret(path, mine):
            return Prepared()
        found = merge(mine, base, disk, scratch=self._scratch)
        if found is None:
            return Prepared()
        if found.conflicts:
            note = "Its text and the other's change do not merge: they meet on the same lines."
            return Prepared(conflicting=True, note=note, shown=_conflicts(found.text))
        if found.text == mine and write.whole is not None:
            return Prepared(passes=True)
        parsing = parses(path, found.text)
        if parsing != "yes":
            why = "would not parse any more" if parsing == "no" else "takes too long to parse"
            note = f"Its text and the other's change touch different lines, but merged the file {why}."
            return Prepared(conflicting=True, note=note, shown=shown(mine, found.text))
        if not ask.call.rewrite:
            note = "Its text and the other's change merge: the lines below would be merged into it."
            return Prepared(note=note, shown=shown(mine, found.text))
        params = rewritten(ask.call.params, path, write, disk, found.text)
        if params is None:
            return Prepared()
        others = tuple(sorted({session for _, _, _, session in ruling.unread}))
        merged = MergeRecord(
            ask.actor, ask.call.tool, path, time.time(), others, mine, disk, found.text, ask.call.namespace
        )
        kept = self.merges.prepare(merged)
        if not kept:
            return Prepared()
        whole = self._rules.current().classify(replace(ask.call, params=params)).content.whole
        who = ", ".join(map(name, others)) or "another session"
        note = (
            f"What {who} changed there meanwhile was merged into this call's text, and the merged text is what runs. "
            "Read the file before you write it again."
        )
        return Prepared(passes=True, params=params, whole=whole, note=note, shown=shown(mine, found.text), kept=kept)

    def _base(self, ask: Ask, path: str, own: int) -> str | None:
        """Return what the session knows the file to be; None where nothing proves it."""
        call, actor = ask.call, ask.actor
        last = self._store.action(call.namespace, own) if own else None
        if last is not None and last.state in _HAPPENED:
            newest = self.snapshots.write_of(call.namespace, actor, path, last.content.digest)
            if newest is not None and newest.whole is not None:
                return newest.whole
        seen = self.snapshots.seen(call.namespace, actor, path)
        since, text = seen if seen is not None else (0, None)
        done = list(self._writes(call.namespace, actor, path, since))
        if own > since and (not done or done[-1].id != own):
            return None  # its newest write is one of several things at once
        writes = [
            self.snapshots.write_of(call.namespace, actor, path, action.content.digest)
            if action.state in _HAPPENED
            else None
            for action in done
        ]
        return base_of(text, writes)

    def _writes(self, namespace: str, session: str, path: str, since: int) -> Iterator[Action]:
        """Yield what the session has done to the file, or may have, oldest first."""
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

    def _told(self, ruling: Ruling, me: str) -> str:
        """Return what a session is told of merges among the changes it has not read."""
        for _, id, _, _ in sorted(ruling.unread, key=lambda one: -one[1]):
            merged = self.merges.get(id)
            if merged is not None:
                return merge_sentence(merged, me)
        return ""

    # --- merges that run --------------------------------------------------------------------------

    def keep(self, prepared: Prepared, id: int) -> bool:
        """Keep a merge that is about to run; return whether it is kept."""
        return self.merges.keep(prepared.kept, id)

    def drop(self, prepared: Prepared | None) -> None:
        """Forget a merge that was prepared and did not run."""
        if prepared is not None and prepared.kept:
            self.merges.drop(prepared.kept)

    def params_of(self, call: Call, found: Classification, id: int) -> Mapping[str, Any] | None:
        """Return the params with which a merged call runs, when it is asked again; None if they are gone."""
        merged = self.merges.get(id)
        write = proposed_write(call, found, f"{FILE}{merged.path}") if merged is not None else None
        if merged is None or write is None or not write.param:
            return None
        return rewritten(call.params, merged.path, write, merged.before, merged.merge)

    def has_written(self, action: Action, result: Any, *, failed: bool = False) -> str:
        """Return what a merged write overwrote when it ran, as a note for its session; "" if it overwrote nothing.

        The host may say which text it replaced: that must be the text that was merged. Otherwise the file must hold
        the merge.
        """
        merged = self.merges.get(action.id)
        if merged is None:
            return ""
        replaced = _replaced(result)
        if replaced is not None and not _are_same(replaced, merged.before):
            lost = shown(merged.before, replaced)
            note = f"The file had changed once more before the merge was written, and that was overwritten:\n{lost}"
        else:
            disk = copy_of(merged.path)
            if disk is not None and (disk.text == merged.merge or (failed and disk.text == merged.before)):
                return ""
            note = "The file does not hold what was merged: something else was written there"
            hidden = disk is None or looks_secret(merged.path, disk.text)
            note += "." if disk is None or hidden else f":\n{shown(merged.merge, disk.text)}"
        self.merges.note_loss(merged, note)
        return f"{note}\n`callosum merges show {action.id}` has the merge and what it was made of."


def _path(key: str) -> str:
    """Return the absolute path of a key of one file, "" for any other key."""
    return key[len(FILE) :] if key.startswith(f"{FILE}/") and key[-1] != "/" and "|" not in key else ""


def _replaced(result: Any) -> str | None:
    """Return the text that a host says it has replaced."""
    for said in (result, *result.values()) if isinstance(result, Mapping) else ():
        for field in _REPLACED if isinstance(said, Mapping) else ():
            if isinstance(said.get(field), str):
                return str(said[field])
    return None


def _are_same(one: str, other: str) -> bool:
    """Return True for equal texts; hosts read every end of a line as one."""
    return one == other or one.replace("\r\n", "\n") == other.replace("\r\n", "\n")


def _conflicts(text: str) -> str:
    """Return the conflicting hunks of a merge, as git marks them."""
    out: list[str] = []
    inside = False
    for line in text.split("\n"):
        inside = inside or line.startswith("<<<<<<< ")
        if inside:
            out.append(line)
        if line.startswith(">>>>>>> "):
            inside = False
    return shown("", "\n".join(out))
