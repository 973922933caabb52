"""Merges that ran: the proposal, the file before and the merge, so that each of the three can be restored."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import Final, Literal, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from callosum.errors import ConfigError
from callosum.merging.private_files import PrivateFiles
from callosum.merging.snapshots import copy_of
from callosum.policy.sentence import name

Which = Literal["proposal", "before", "merge"]
WHICH: Final[tuple[Which, ...]] = get_args(Which)
_END: Final = ".merge"


class MergeRecord(Struct, frozen=True, omit_defaults=True):
    """One merge. ``id`` is its action's; ``at`` is in Unix seconds.

    ``others`` are the sessions whose changes were merged into the ``proposal``. ``before`` is the file that the
    proposal would have replaced. ``lost`` says what was overwritten nevertheless, "" if nothing was. ``folder`` is the
    file's folder with links resolved, "" in the records of older versions.
    """

    session: str
    tool: str
    path: str
    at: float
    others: tuple[str, ...]
    proposal: str
    before: str
    merge: str
    namespace: str
    id: int = 0
    lost: str = ""
    folder: str = ""

    def text(self, which: Which) -> str:
        """Return one of the three texts."""
        return {"proposal": self.proposal, "before": self.before, "merge": self.merge}[which]


_decode: Final = msgspec.msgpack.Decoder(MergeRecord).decode


class MergeStore:
    """The merges in one folder."""

    def __init__(self, path: Path) -> None:
        self.folder = PrivateFiles(path)
        self._heads: dict[str, tuple[int, MergeRecord]] = {}

    def prepare(self, merged: MergeRecord) -> str:
        """Store a merge before its id is known; return the name for ``keep``, "" if it cannot be stored."""
        name = f"{secrets.token_hex(8)}.prepared"
        try:
            return name if self.folder.write(name, msgspec.msgpack.encode(merged)) else ""
        except UnicodeEncodeError:
            return ""

    def keep(self, name: str, id: int) -> bool:
        """Give a prepared merge the id of its action; return True if it is stored."""
        return self.folder.rename(name, f"{id:020d}{_END}")

    def drop(self, name: str) -> None:
        """Remove a prepared merge that did not run."""
        self.folder.remove(name)

    def get(self, id: int) -> MergeRecord | None:
        """Return a merge, None if it is no longer stored."""
        data = self.folder.read(f"{id:020d}{_END}")
        try:
            return replace(_decode(data), id=id) if data is not None else None
        except msgspec.DecodeError:
            return None

    def note_loss(self, merged: MergeRecord, lost: str) -> None:
        """Record what a merge overwrote."""
        if prepared := self.prepare(replace(merged, lost=lost)):
            self.keep(prepared, merged.id)

    def heads(self) -> list[MergeRecord]:
        """Return the stored merges, newest first, without their texts. Only files that changed are read again."""
        heads: dict[str, tuple[int, MergeRecord]] = {}
        for file, changed in self.folder.changed().items():
            cached = self._heads.get(file)
            if cached is not None and cached[0] == changed:
                heads[file] = cached
            elif file.endswith(_END) and (merged := self.get(int(file.removesuffix(_END)))) is not None:
                heads[file] = changed, replace(merged, proposal="", before="", merge="")
        self._heads = heads
        return [heads[file][1] for file in sorted(heads, reverse=True)]

    def all(self) -> list[MergeRecord]:
        """Return the stored merges, newest first."""
        ids = [int(name.removesuffix(_END)) for name in self.folder.names() if name.endswith(_END)]
        return [merged for id in reversed(ids) if (merged := self.get(id)) is not None]


def merge_sentence(merged: MergeRecord, me: str) -> str:
    """Return the sentence about a merge for another session whose change is part of it."""
    change = "this session's change" if me in merged.others else "another session's change"
    lost = " Something was overwritten then." if merged.lost else ""
    command = f"`callosum merges show {merged.id}`"
    return f"{name(merged.session)} wrote the file merged with {change}: {command} shows the merge.{lost}"


def bring_back(merged: MergeRecord, which: Which, *, force: bool = False) -> None:
    """Write one of a merge's texts into its file, as a whole. Keep the file's mode, owner and hard links.

    Raises ``ConfigError`` if the file now holds none of the three texts, unless ``force`` is set, or if its folder has
    become a link to another one; and ``OSError``.
    """
    path = Path(merged.path)
    if merged.folder and os.path.realpath(path.parent) != merged.folder:
        raise ConfigError(f"its folder was {merged.folder}, and is now a link to another one", at=merged.path)
    now = copy_of(merged.path)
    if not force and (now is None or now.text not in (merged.proposal, merged.before, merged.merge)):
        raise ConfigError(
            "the file has changed since the merge, and what it holds now would be lost: "
            f"compare it with `callosum merges show {merged.id}`, or add --force",
            at=merged.path,
        )
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    facts = path.stat() if now is not None else None
    if facts is not None and facts.st_nlink > 1:  # a new file would leave its other names with the old text
        path.write_bytes(merged.text(which).encode())
        return
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(handle, "wb") as file:  # noqa: PTH123
            file.write(merged.text(which).encode())
            if facts is not None and os.name == "posix" and facts.st_uid != os.geteuid():
                os.fchown(handle, facts.st_uid, facts.st_gid)
            os.fchmod(handle, stat.S_IMODE(facts.st_mode) if facts is not None else 0o644)
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise
