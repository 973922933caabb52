"""The file of the search index: an SQLite database with full text search (FTS5).

It is derived data, so a file that is damaged or not a Callosum index is moved aside and built again. A connection lives
for one piece of work only: it crosses no fork and no thread, and a removed file is noticed.

A row is a journal entry with its ``seq`` as number, or a page with a number beyond all of these::

    doc    the fields of a hit: session, tool, keys, answer, text, and the day
    words  the full text index of doc
    page   the number of each page, and the state of its file when it was read
    meta   the seq up to which the journal is indexed
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

from callosum.errors import ConfigError, StoreError, StoreUnavailable
from callosum.locks import locked

logger = logging.getLogger("callosum")

BUSY_SECONDS: Final = 5.0
"""Seconds that a transaction waits for its turn."""
COLUMNS: Final = "session, tool, keys, answer, text, day"
"""Columns of ``doc`` that are in ``words``."""

_LOG_LIMIT: Final = 16 * 1024 * 1024
_APPLICATION: Final = 0x43414C53  # "CALS"
_SCHEMA: Final = 1
_MODULE: Final = "fts5"
_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_NOT_WRITABLE: Final = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)

_MAKE: Final = f"""
pragma journal_mode = wal;
begin;
create table meta(name text primary key, value integer not null) without rowid;
create table page(id integer primary key, path text not null unique, stamp text not null);
create table doc(
    id integer primary key, at integer not null, namespace text not null,
    session text not null, tool text not null, keys text not null, answer text not null, text text not null,
    day text not null
);
create virtual table words using {_MODULE}(
    {COLUMNS}, content = 'doc', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2'
);
insert into meta values('seq', 0);
pragma application_id = {_APPLICATION};
pragma user_version = {_SCHEMA};
commit;
"""
_PROBE: Final = (
    "select value, (select count(*) from page), (select 1 from doc limit 1), (select 1 from words limit 1) "
    "from meta where name = 'seq'"
)

T = TypeVar("T")


class IndexDamaged(Exception):
    """The file cannot be used and must be built again. ``inode`` identifies the file."""

    def __init__(self, why: str, inode: int) -> None:
        super().__init__(why)
        self.inode = inode


class IndexFile:
    """The file at ``path``. It and its folder are created when something is written.

    Errors of its connections inside ``with`` become ``StoreUnavailable`` or ``IndexDamaged``. Raises ``ConfigError`` if
    this Python's SQLite has no full text search.
    """

    def __init__(self, path: Path) -> None:
        _require_fts5()
        self.path = path

    def exists(self) -> bool:
        """Return True if the file exists and is not empty."""
        try:
            return self.path.stat().st_size > 0
        except FileNotFoundError:
            return False

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection, to a new file if there is none."""
        with self._explained():
            if not self.exists():
                self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                with self._alone():
                    self._make()
            with closing(self._connect("rw")) as db:
                yield db

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection | None]:
        """Yield a read-only connection; None if there is no file."""
        with self._explained():
            if not self.exists():
                yield None
                return
            try:
                db = self._connect("rw")
            except sqlite3.OperationalError as error:
                if code_of(error) not in _NOT_WRITABLE:
                    raise
                db = self._connect("ro&immutable=1")  # nothing can be written there, so there is no log to read
            with closing(db):
                db.execute("pragma query_only = 1")
                yield db

    def repairing(self, work: Callable[[], T], fill: Callable[[], object] = lambda: None) -> T:
        """Do the work. If the file is damaged, replace it, run ``fill``, and do the work once more."""
        try:
            return work()
        except IndexDamaged as fault:
            self._set_aside(fault)
        fill()
        try:
            return work()
        except IndexDamaged as fault:
            raise StoreUnavailable(f"{self.path} {fault}, and was damaged again after it was built again") from fault

    # --- inside --------------------------------------------------------------------------------------

    def _make(self) -> None:
        """Create the file, unless another process already has. No process ever sees half of it."""
        if self.exists():
            return
        part = self.path.with_name(f".{self.path.name}.part")
        _remove(part)
        _remove(self.path)  # its log too: a new file must not find it
        # Private from the start; SQLite gives its log and index file the same mode.
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        with closing(sqlite3.connect(part, isolation_level=None)) as db:
            db.executescript(_MAKE)
        part.replace(self.path)

    def _connect(self, mode: str) -> sqlite3.Connection:
        inode = self.path.stat().st_ino
        address = f"{self.path.absolute().as_uri()}?mode={mode}"
        db = sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
        try:
            self._check(db, inode)
            db.execute("pragma synchronous = normal")
            db.execute(f"pragma journal_size_limit = {_LOG_LIMIT}")
        except BaseException:
            db.close()
            raise
        return db

    def _check(self, db: sqlite3.Connection, inode: int) -> None:
        """Raise ``IndexDamaged`` if this is not a complete index, ``StoreError`` if a newer version made it."""
        (application,) = db.execute("pragma application_id").fetchone()
        (schema,) = db.execute("pragma user_version").fetchone()
        if application == _APPLICATION and schema > _SCHEMA:
            raise StoreError(f"{self.path} was made by a newer Callosum")
        try:
            if application == _APPLICATION and schema == _SCHEMA and db.execute(_PROBE).fetchone():
                return
        except sqlite3.OperationalError as error:
            if code_of(error) != sqlite3.SQLITE_ERROR:
                raise
            raise IndexDamaged(f"is damaged ({error})", inode) from error  # a table is missing
        raise IndexDamaged("is no search index of this version", inode)

    def _set_aside(self, fault: IndexDamaged) -> None:
        """Move an unusable file out of the way, unless another process already has."""
        aside = self.path.with_name(f"{self.path.name}.damaged")
        with self._explained(), self._alone():
            if not self.exists() or self.path.stat().st_ino != fault.inode:
                return
            _remove(self.path, only_sides=True)
            self.path.replace(aside)
            logger.warning(
                "%s %s; it was moved to %s and is built again from the journal", self.path, fault, aside.name
            )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let one process at a time create or move the file.

        Raises ``StoreUnavailable`` if another process holds the lock.
        """
        side = self.path.parent / ".search.lock"
        with locked(side, wait=BUSY_SECONDS) as alone:
            if not alone:
                raise StoreUnavailable(f"{self.path}: another process holds {side.name}")
            yield

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Convert errors of SQLite and the system into Callosum's."""
        try:
            yield
        except sqlite3.Error as error:
            if code_of(error) in _DAMAGED:
                raise IndexDamaged(f"is damaged ({error})", self._inode()) from error
            raise StoreUnavailable(f"{self.path}: {error}") from error
        except OSError as error:
            raise StoreUnavailable(f"{error.filename or self.path}: {error.strerror or error}") from error

    def _inode(self) -> int:
        with suppress(OSError):
            return self.path.stat().st_ino
        return 0


# --- transactions -------------------------------------------------------------------------------------


def begin(db: sqlite3.Connection) -> bool:
    """Begin a transaction that may write; return False if another process blocks it for ``BUSY_SECONDS``."""
    try:
        db.execute("begin immediate")
    except sqlite3.OperationalError as error:
        if code_of(error) != sqlite3.SQLITE_BUSY:
            raise
        return False
    return True


@contextmanager
def commits(db: sqlite3.Connection) -> Iterator[None]:
    """Commit the transaction, or roll it back if the block raises."""
    try:
        yield
        db.execute("commit")
    except BaseException:
        with suppress(sqlite3.Error):
            db.execute("rollback")
        raise


def code_of(error: sqlite3.Error) -> int:
    """Return the primary code of an SQLite error."""
    return (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF


def _require_fts5() -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        try:
            db.execute(f"create virtual table probe using {_MODULE}(text)")
        except sqlite3.OperationalError as error:
            message = f"the SQLite {sqlite3.sqlite_version} of this Python has no full text search ({error})"
            raise ConfigError(message, at="search") from error


def _remove(path: Path, *, only_sides: bool = False) -> None:
    """Remove a database with its log, or only the log."""
    for side in ("-wal", "-shm") if only_sides else ("-wal", "-shm", ""):
        Path(f"{path}{side}").unlink(missing_ok=True)
