"""Open the file, and take turns with other writers.

Writers use ``BEGIN IMMEDIATE`` without SQLite's busy handler, which lets some writers starve for over a second. Only
when the file is busy, writers queue for a lock on a side file (the kernel frees it when a process dies), and the first
one in the queue polls.

A file of another program or with another schema is refused before anything is written into it.
"""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from shlex import quote
from typing import Any, Final

from callosum.errors import StoreError, StoreUnavailable
from callosum.stores.receipt import IDENTITY, HeldByStore, Receipt, new_identity, refusal
from callosum.stores.sqlite import statements as sql
from callosum.stores.sqlite.clock import AgreedClock
from callosum.stores.sqlite.log_watch import LogWatch

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows: writers retry without a queue
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger("callosum")

Execute = Callable[..., sqlite3.Cursor]

APPLICATION_ID: Final = 0x43414C4F  # "CALO"
SCHEMA: Final = 2
"""The format that this version reads and writes."""

BUSY_SECONDS: Final = 10.0
"""Seconds that a transaction waits for its turn before it raises ``StoreUnavailable``."""
LOOK_EVERY: float = 0.5
"""Seconds between two checks that the file is still there."""
LOG_LIMIT: Final = 16 * 1024 * 1024
"""Size in bytes at which the write-ahead log is truncated, even if that means waiting for readers."""
_LOG_EVERY: Final = 256
"""Number of a connection's transactions between two checks of the log's size."""
_TEND_AFTER: Final = 400
"""Number of requests, some megabytes, after which ``tend`` moves the log into the file."""
_CACHE: Final = -16_000
"""Size of a connection's page cache in kB (negative, as SQLite expects it)."""
_SMALL_CACHE: Final = -1000
_LOG_WAIT: Final = 300
"""Milliseconds to wait for readers when the log is truncated."""
_fdatasync: Final = getattr(os, "fdatasync", os.fsync)
_PAIR: Final = struct.Struct("<QQ")  # the file's inode, and the entry
_PAIRS: Final = struct.Struct("<QQQQ")
_CALM: Final = 8
"""Number of transactions in a row without another connection's commit after which a process counts as alone."""
_FULL_SYNC: Final = getattr(fcntl, "F_FULLFSYNC", None)
_SYNC_SECONDS: Final = 1.0
_SETTLED: Final = 50_000_000
"""Nanoseconds after which a folder's next change surely has another time: file systems count in coarse steps."""
_ASK_AGAIN: Final = 0.2
"""Seconds between two checks whether a changed store was accepted."""
_CLOSE_WAIT: Final = 1.0
"""Seconds to wait until other threads stop using their connections, before a damaged log is put back."""
_SHORT_CLOSE_WAIT: Final = 0.02
"""Seconds to wait for the same before a database is opened for writing."""
_POLL_DATABASE, _POLL_SYNC, _POLL_LINE, _POLL_SOON, _POLL_MOST = 0.00005, 0.0001, 0.0002, 0.0005, 0.002
_PATIENT: Final = 0.1
"""Seconds in the queue after which the file is polled only every ``_POLL_MOST``; before that more often."""


class FileBusy(Exception):
    """Another connection has the file now."""


class _Forks:
    """Counts the forks before this process, because a connection must not cross a fork."""

    count = 0

    @classmethod
    def happened(cls) -> None:
        cls.count += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Forks.happened)


class SqliteConnection:
    """One thread's connection to the file, with what it knows; a connection that was replaced is never opened again.

    One cursor runs all statements, because each is read to its end before the next.
    """

    connection: sqlite3.Connection
    execute: Execute
    """Both are set once ``born`` is not negative."""
    cursor: sqlite3.Cursor | None = None
    transaction: Any = None
    """The engine's transactions of this connection."""
    born = -1
    changes = 0
    """Number of times that the files had been found changed when this connection was opened."""
    busy = False
    """True while its thread uses the connection, so that no other thread may close it."""
    calm = 0
    """Number of transactions in a row without another connection's commit."""
    inode = 0
    folder: tuple[int, int] | None = None
    """Inode and last change of the folder when its files were last seen to be the open ones."""
    entry = 0
    """Newest entry that the last durable transaction wrote or read."""
    upto = 0
    """Entry up to which this connection itself synced."""
    watch: LogWatch | None = None
    looked = 0.0
    begun = 0
    log = synced = side = -1
    tended = small = False

    def __init__(self) -> None:
        self.pid, self.thread = os.getpid(), threading.get_ident()
        self.files: list[int] = []
        """Open files beside the connection's own."""

    def disconnect(self) -> None:
        """Close the connection but not the other files: a sync of its thread may be using them."""
        cursor, self.cursor = self.cursor, None
        if cursor is not None:
            connection: sqlite3.Connection = cursor.connection
            cursor.close()  # a statement that was not read to its end would keep the file open
            connection.close()

    def close(self) -> None:
        """Close everything."""
        self.disconnect()
        self.born = -1
        while self.files:
            os.close(self.files.pop())


class _Here(threading.local):
    """This thread's connection. It is a plain object, because every access to thread-local data is expensive."""

    def __init__(self) -> None:
        self.link = SqliteConnection()


class SqliteConnections:
    """One connection per thread, reopened after a fork."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file, self._log, self._folder = str(path), f"{path}-wal", str(path.parent)
        self.here = _Here()
        """This thread's connection, as ``here.link``."""
        self._open: list[SqliteConnection] = []
        """All that were opened; those of a process that was forked are neither used nor closed."""
        self._anew = f"{path} was opened anew meanwhile"
        self._guard = threading.RLock()
        self._tended = False
        self._replaced = 0
        """Number of times that the path was found to lead to another file than the open one."""
        self._changes = 0
        """Number of times that this, or a change of the log, was found in this process."""
        self._upto = (0, 0)
        self._full = False
        self.receipt = Receipt(Path(f"{path}.receipt"))
        self.clock = AgreedClock(Path(f"{path}.turn"))
        self.changed = ""
        """Why calls of tiers 3 and 4 are refused; empty if they are not."""
        self._asked = 0.0
        self.written = 0
        """Number of requests since the log was last moved into the file."""

    def get(self) -> sqlite3.Connection:
        """Return this thread's connection; open it, and create the file, if necessary. Do not call it in a transaction.

        The caller clears ``here.link.busy`` afterwards.
        """
        link = self.here.link
        link.busy = True  # before the next check: closing idle connections starts a new generation first
        if time.monotonic() - link.looked >= LOOK_EVERY:
            self._look(link)
        if self._is_left(link):
            link = self._connect()
        if self._tended and not (link.tended or link.small):
            link.small = True  # one thread writes; the others only read now and then
            link.execute(f"pragma cache_size = {_SMALL_CACHE}")
        return link.connection

    def begin(self, *, wait: bool = True) -> SqliteConnection:
        """Start a write transaction in turn. Return the connection that runs its statements.

        The caller clears ``here.link.busy`` afterwards. Raises ``StoreUnavailable`` after ``BUSY_SECONDS``, or
        ``FileBusy`` at once without ``wait``.
        """
        link = self.here.link
        link.busy = True
        if time.monotonic() - link.looked >= LOOK_EVERY:
            self._look(link)
        if link.born != _Forks.count + self._replaced:
            link = self._connect()
        execute = link.execute
        link.begun += 1
        if self._tended:
            self._leave_log(link, execute, served=not wait)
        elif link.begun % _LOG_EVERY == 0:
            self._cut_log(execute)
        try:
            execute("begin immediate")
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            if not wait:
                raise FileBusy from None
            self._line_up(link)
        if link.born != _Forks.count + self._replaced:  # again, because the log it would write to may be gone
            execute("rollback")
            return self.begin(wait=wait)
        return link

    def _cut_log(self, execute: Execute, limit: int = LOG_LIMIT) -> None:
        """Truncate the write-ahead log if it grew too large.

        SQLite's own checkpoints cannot restart it while readers overlap without a gap.
        """
        with suppress(OSError):
            if os.stat(self._log).st_size > limit:  # noqa: PTH116 - half the time of a Path's
                self._checkpoint(execute, "truncate", _LOG_WAIT)

    def _checkpoint(self, execute: Execute, how: str, wait: int = 0) -> bool:
        """Move the log into the file, and wait for readers so many milliseconds. Return True if all of it was moved."""
        try:
            execute(f"pragma busy_timeout = {wait}").fetchall()
            try:
                return not execute(f"pragma wal_checkpoint({how})").fetchone()[0]
            finally:
                execute("pragma busy_timeout = 0").fetchall()  # a row left unread keeps the file open
        except sqlite3.OperationalError as error:
            logger.debug("the log of %s stays as it is for now: %s", self.path, error)
            return False

    def tend(self) -> None:
        """Move committed pages from the log into the file, from a thread of its own.

        After the first call, commits no longer do so. While others commit, this thread cannot reach the log's end;
        ``begin`` does the small rest once the log is large.
        """
        self._tended = True
        if self.written < _TEND_AFTER:
            return
        self.written = 0
        _, length, moved = self.get().execute("pragma wal_checkpoint(passive)").fetchone()
        self._full = length * 4096 > LOG_LIMIT // 2 and length - moved < length // 2

    def _leave_log(self, link: SqliteConnection, execute: Execute, *, served: bool) -> None:
        if not link.tended:
            link.tended = True
            execute("pragma wal_autocheckpoint = 0").fetchall()
            # The thread that never waits writes nearly everything; the others write only now and then.
            execute(f"pragma cache_size = {_CACHE if served else _SMALL_CACHE}")
        if self._full:
            self._full = False
            self._checkpoint(execute, "restart")
        elif link.begun % _LOG_EVERY == 0:
            self._cut_log(execute, LOG_LIMIT * 8)

    def _look(self, link: SqliteConnection) -> None:
        """Check that the path still leads to the open file, because what another file gets is lost.

        A thread that finds another file finds it for all threads: each of them reconnects between transactions.
        """
        link.looked = time.monotonic()
        if link.born < 0:
            return
        if self._is_there(link):
            with suppress(OSError):
                self.receipt.attach()  # writes the receipt again if it was removed
            if link.watch is None or self._look_at_log(link):
                self.clock.agree(link.execute)
            return
        self._leave(link, f"{self.path} was removed or replaced while in use")

    def _leave(self, link: SqliteConnection, why: str) -> bool:
        """Make every thread reconnect before its next transaction. Return False if that was already requested."""
        with self._guard:
            if self._is_left(link):
                return False
            self._replaced += 1
            self._changes += 1
            logger.warning("%s: going on with what is there", why)
            return True

    def _is_left(self, link: SqliteConnection) -> bool:
        """Return True if this connection must not be used any more, because it may have a removed file open."""
        return link.born != _Forks.count + self._replaced

    def _is_there(self, link: SqliteConnection) -> bool:
        try:
            return os.stat(self._file).st_ino == link.inode  # noqa: PTH116 - half the time of a Path's
        except OSError:
            return False

    # --- What was acknowledged stays ---

    def check_files(self, link: SqliteConnection) -> None:
        """Check, before an acknowledgement, that what was committed is where other processes find it.

        Raises ``StoreChanged`` if the database or its log was removed, replaced or truncated under the connection, and
        ``StoreUnavailable`` if another thread found that since the transaction began: its fate is unknown.
        """
        if link.changes != self._changes:
            raise StoreUnavailable(self._anew)
        folder = self._folder_state()
        same = folder is not None and folder == link.folder
        if not (same or self._is_there(link)):
            why = f"{self.path} was removed or replaced while in use"
            self._leave(link, why)
            raise refusal(why)
        if not self._look_at_log(link, there=same):
            raise refusal(self.changed) if self.changed else StoreUnavailable(self._anew)
        link.folder = folder

    def _folder_state(self) -> tuple[int, int] | None:
        """Return a value that differs once a file of the folder was removed or replaced; None if it changed just now.

        Each acknowledgement checks this instead of the log: after the times of a file were read, Linux gives it a new
        time at its next write, and the sync after that takes a third longer.
        """
        try:
            found = os.stat(self._folder)  # noqa: PTH116 - half the time of a Path's
        except OSError:
            return None
        settled = time.time_ns() - found.st_mtime_ns > _SETTLED
        return (found.st_ino, found.st_mtime_ns) if settled else None

    def _look_at_log(self, link: SqliteConnection, *, suspect: bool = False, there: bool = False) -> bool:
        """Return True if nothing was lost with the log. If it was removed or truncated, drop all connections.

        ``suspect``: SQLite missed a part of it. ``there``: its name is known to lead to the open file.
        """
        watch = link.watch
        if watch is None or self._is_left(link):
            return True
        log = self._log
        if not there:
            with suppress(OSError):
                there = os.stat(log).st_ino == watch.inode  # noqa: PTH116 - half the time of a Path's
        whole = watch.is_whole()
        if there and whole and not (suspect or watch.emptied):
            return True
        if whole and there and self._moved(link):
            return True
        if whole and not there:
            with self._guard:  # no other process may open the database before all of the log is in it
                if not self._leave(link, f"{log} was removed while in use"):
                    return False
                if self._moved(link):
                    return True
        self.changed = f"{log} was removed or cut off while in use, with acknowledged decisions in it"
        self.receipt.refuse()
        self._leave(link, self.changed)
        # The last connection to close moves the log into the database, holes included. So nothing may be left to move.
        # Afterwards the rest of the log is put back, and SQLite takes from it what is sound.
        left = watch.take()
        self._close_idle(link, _CLOSE_WAIT)
        if there:
            Path(log).write_bytes(left)
        return False

    def examine(self, error: sqlite3.Error) -> None:
        """Check whether the log was truncated, after an error that this can cause. Raises ``StoreChanged``."""
        short = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_IOERR_SHORT_READ
        link = self.here.link
        if link.born < 0 or not (short or is_damage(error)):
            return
        self.prepare_sync(link)
        if not self._look_at_log(link, suspect=short) and self.changed:
            raise refusal(self.changed) from error

    def _moved(self, link: SqliteConnection) -> bool:
        """Move the log into the database through a connection that has it open. Return True if it was complete."""
        if link.connection.in_transaction:
            return False
        busy, link.busy = link.busy, True
        try:
            return self._checkpoint(link.execute, "truncate", _LOG_WAIT)
        except sqlite3.Error as error:
            logger.warning("the log of %s cannot be saved: %s", self.path, error)
            return False
        finally:
            link.busy = busy

    def may_acknowledge(self, execute: Execute) -> bool:
        """Return True if calls of tiers 3 and 4 are accepted; check now and then whether a person accepted it."""
        if not self.changed:
            return True
        now = time.monotonic()
        if now - self._asked >= _ASK_AGAIN:
            self._asked = now
            self._compare(execute)
        return not self.changed

    def _compare(self, execute: Execute) -> None:
        receipt = self.receipt
        receipt.attach()
        identity, left, accepted, missing = execute(sql.KEPT, (receipt.entry, receipt.name)).fetchone()
        if identity is None:
            return  # read-only, and from before there were identities
        held = HeldByStore(identity, missing or 0, left or 0, accepted or 0)
        changed = receipt.compare(held, str(self.path))
        if changed != self.changed:
            logger.warning("%s", refusal(changed) if changed else f"{self.path} is used for all calls again")
        self.changed = changed

    def accept(self, now: int) -> str:
        """Accept the store as it is, for every process. Return what was wrong, ``""`` if nothing was."""
        link = self.begin()
        upto = max(now, self.receipt.entry)
        try:
            self._compare(link.execute)
            was = self.changed
            if was:
                link.execute(sql.SET_FACT, (self.receipt.name, upto))
            link.execute("commit")
        except BaseException:
            self.undo()
            raise
        if was:
            self.sync(upto)
            self._compare(link.execute)
        return was

    def _identify(self, execute: Execute) -> None:
        """Give the file an id if it has none, and compare it with the receipt."""
        if execute(sql.FACT, (IDENTITY,)).fetchone() is None:
            # On disk before the receipt names it, so that a power failure does not make it look like another store.
            execute("pragma synchronous = full")
            execute(f"pragma busy_timeout = {BUSY_SECONDS * 1000:.0f}")
            try:
                execute(sql.ADD_FACT, (IDENTITY, new_identity()))
            except sqlite3.OperationalError as error:
                if code_of(error) != sqlite3.SQLITE_READONLY:
                    raise
            finally:
                execute("pragma busy_timeout = 0")
                execute("pragma synchronous = normal")
        self._compare(execute)

    def sync(self, seq: int) -> None:
        """Put all commits up to entry ``seq`` on disk: sync the log, as ``synchronous = FULL`` would.

        This happens after the commit, so that nothing waits for the disk while the file is locked, and once for all
        that wait: a small file says up to which entry a process has committed and synced. What a checkpoint moved
        meanwhile is on disk already, because it syncs the log before and the file after.
        """
        link = self._checked()
        if fcntl is None or link.calm >= _CALM:  # no other process could share the sync
            if link.upto < seq:
                _sync_file(link.log)
                link.upto = seq
        else:
            self._sync_together(link, seq)
        self.receipt.acknowledge(link.entry)

    def _sync_together(self, link: SqliteConnection, seq: int) -> None:
        """Sync for all that wait, or wait for the process that syncs."""
        file, inode = link.synced, link.inode
        deadline, pause = 0.0, _POLL_SYNC
        while not _try_lock(file):
            now = time.monotonic()
            if not deadline:
                deadline = now + _SYNC_SECONDS
                os.pwrite(file, _PAIR.pack(inode, seq), 0)
            _, _, done, synced = _pairs(file)
            if done == inode and synced >= seq:
                return
            if now > deadline:  # the process that syncs was stopped, so each syncs for itself
                _sync_file(link.log)
                return
            time.sleep(pause)
            pause = min(pause * 1.5, _POLL_SOON)
        try:
            noted_inode, committed, done, synced = _pairs(file)
            if done != inode or synced < seq:
                _sync_file(link.log)
                upto = committed if noted_inode == inode and committed > seq else seq
                os.pwrite(file, _PAIR.pack(inode, upto), _PAIR.size)
        finally:
            _unlock(file)

    def to_sync(self, seq: int) -> Callable[[], None]:
        """Return a function that syncs the log up to entry ``seq``: one system call, for a thread beside this one.

        Each further call would wait again for the interpreter's lock, which a busy thread rarely gives up. So the note
        for other processes is written here, next time: at worst they sync once more.
        """
        link = self._checked()
        if self._upto[0] == link.inode:
            os.pwrite(link.synced, _PAIR.pack(*self._upto), _PAIR.size)
        log, inode, entry = link.log, link.inode, link.entry

        def sync() -> None:
            _sync_file(log)
            self._upto = inode, seq
            self.receipt.acknowledge(entry)

        return sync

    def prove_sync(self) -> None:
        """Sync the log and write the note for other processes, as risky decisions do. Raises ``OSError``."""
        link = self._checked()
        note = os.pread(link.synced, _PAIR.size, _PAIR.size) or bytes(_PAIR.size)
        os.pwrite(link.synced, note, _PAIR.size)  # an older note than another process wrote costs one more sync
        _sync_file(link.log)

    def _checked(self) -> SqliteConnection:
        """Return this thread's connection, ready for a sync, once its files were checked."""
        link = self.here.link
        if link.synced < 0:
            self.prepare_sync(link)
        self.check_files(link)
        return link

    def prepare_sync(self, link: SqliteConnection) -> None:
        """Open what a sync needs, unless it is open. Raises ``OSError`` and then leaves the connection unchanged."""
        if link.synced >= 0:
            return
        synced = os.open(f"{self.path}.sync", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            watch = link.watch or self._watch_log()
        except BaseException:
            os.close(synced)
            raise
        with self._guard:
            link.files += [synced] if link.watch else [synced, watch.file]
        link.log, link.synced, link.watch = watch.file, synced, watch

    def _watch_log(self) -> LogWatch:
        watch = LogWatch(os.open(self._log, os.O_RDWR | os.O_CLOEXEC))
        watch.is_whole()
        return watch

    def undo(self) -> None:
        """Roll back what ``begin`` started, if it is still open."""
        link = self.here.link
        if link.born >= 0:
            with suppress(sqlite3.ProgrammingError):  # it was closed, so there is nothing to roll back
                if link.connection.in_transaction:
                    link.execute("rollback")

    def reopen(self) -> None:
        """Make every thread reopen the file before its next transaction, once it can be written.

        A connection that was opened for reading stays read-only, and so does the log's index until the last connection
        of the process was closed. So connections of idle threads are closed here.
        """
        files = (self._file, self._log, f"{self.path}-shm")
        if not all(os.access(file, os.W_OK) for file in files if os.path.lexists(file)):
            return
        link = self.here.link
        with self._guard:
            if self._is_left(link):
                return  # another thread has just done this
            self._replaced += 1
        self._close_idle(link, _SHORT_CLOSE_WAIT)

    def _close_idle(self, link: SqliteConnection, seconds: float) -> None:
        """Close the connections of this process after they were dropped, except those that stay in use for ``seconds``.

        ``link`` is this thread's connection. Another thread's connection is closed only while it is idle: otherwise
        SQLite's objects for a running statement would be freed.
        """
        ends = time.monotonic() + seconds
        with self._guard:
            left = [one for one in self._open if one.pid == os.getpid()]
        while True:
            with self._guard:
                left = [one for one in left if one.cursor is not None]
                for one in left:
                    if one is link or not one.busy:
                        one.disconnect()
                if all(one.cursor is None for one in left) or time.monotonic() > ends:
                    return
            time.sleep(_POLL_SOON)

    def close(self) -> None:
        """Close what this process opened."""
        with self._guard:
            self._close(lambda _: True)
            self._open.clear()
        self.here = _Here()

    def _close(self, which: Callable[[SqliteConnection], bool]) -> None:
        """Close connections of this process."""
        for one in [one for one in self._open if one.pid == os.getpid() and which(one)]:
            self._open.remove(one)
            one.close()

    def _connect(self) -> SqliteConnection:
        """Open the file for this thread, and close what this thread and ended threads had open."""
        self.here.link = link = SqliteConnection()
        born, link.changes, link.busy = _Forks.count + self._replaced, self._changes, True
        running = {thread.ident for thread in threading.enumerate()} - {link.thread}
        with self._guard:
            self._close(lambda one: one.thread not in running)
        with explained(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if fcntl is not None:
                link.side = os.open(f"{self.path}.turn", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                link.files.append(link.side)
            try:
                with self._alone(link.side):
                    link.connection, link.inode, link.watch = self._open_file()
            except BaseException:
                link.close()
                raise
        if link.watch is not None:
            link.log = link.watch.file
            link.files.append(link.log)
        link.cursor = link.connection.cursor()
        link.execute, link.looked, link.born = link.cursor.execute, time.monotonic(), born
        with self._guard:
            self._open.append(link)
        return link

    def _open_file(self) -> tuple[sqlite3.Connection, int, LogWatch | None]:
        """Return a connection to the file (created if absent), the file's inode, and a watch of the log from now on.

        The log is examined before the store is compared with the receipt, so that what is truncated afterwards is
        noticed. The watch is None if the log cannot be opened for writing now.
        """
        if self.path.exists() and self.path.stat().st_size > 0:
            self._free_log()
            refuse_foreign(self.path)
        else:
            # Private from the first moment: the log and the index take over the file's mode.
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(
            self.path, isolation_level=None, cached_statements=512, check_same_thread=False, timeout=BUSY_SECONDS
        )
        watch = None
        try:
            self._prepare(connection)
            inode = self.path.stat().st_ino
            with suppress(OSError):
                watch = self._watch_log()
            self._identify(connection.execute)
            self.clock.agree(connection.execute)
        except BaseException:
            if watch:
                os.close(watch.file)
            connection.close()
            raise
        return connection, inode, watch

    def _free_log(self) -> None:
        """Make log and index writable if the database is: SQLite created them with its mode of that time."""
        mode = self.path.stat().st_mode & 0o777
        for end in ("-wal", "-shm"):
            beside = Path(f"{self.path}{end}")
            with suppress(OSError):
                if beside.stat().st_mode & 0o200 != mode & 0o200:
                    beside.chmod(mode)

    @contextmanager
    def _alone(self, side: int) -> Iterator[None]:
        """Let one process at a time open the file, because a file that is being created answers "locked" at once."""
        deadline = time.monotonic() + BUSY_SECONDS
        while not _try_lock(side) and time.monotonic() < deadline:  # a holder that was stopped is passed by
            time.sleep(_POLL_LINE)
        try:
            yield
        finally:
            _unlock(side)

    def _prepare(self, connection: sqlite3.Connection) -> None:
        execute = connection.execute
        (version,) = execute("pragma user_version").fetchone()
        if version == 0:
            self._use_log(execute)
            execute("begin immediate")
            (version,) = execute("pragma user_version").fetchone()
            if version == 0:
                text = files("callosum.stores.sqlite").joinpath("schema.sql").read_text("utf-8")
                bare = "\n".join(line.split("--")[0] for line in text.splitlines())
                for statement in filter(str.strip, bare.split(";")):
                    execute(statement)
                execute(f"pragma application_id = {APPLICATION_ID}")
                execute(f"pragma user_version = {SCHEMA}")
                version = SCHEMA
            execute("commit")
        if version != SCHEMA:
            raise unreadable(self.path, version)
        self._use_log(execute)
        execute("pragma synchronous = normal")  # `sync` adds the rest if a commit must survive a power failure
        execute(f"pragma journal_size_limit = {LOG_LIMIT}")
        execute(f"pragma cache_size = {_CACHE}")
        execute("pragma temp_store = memory")
        execute("pragma busy_timeout = 0")

    def _use_log(self, execute: Execute) -> None:
        """Put the file into WAL mode, which it then keeps. A copy by ``vacuum into`` is not in that mode.

        Nothing else may use the file at that moment. Raises ``StoreUnavailable`` if something does for
        ``BUSY_SECONDS``, and ``StoreError`` if SQLite cannot keep such a log at all.
        """
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            execute("pragma user_version").fetchall()  # reads the file, because another process may have done it
            (mode,) = execute("pragma journal_mode").fetchone()
            if mode == "wal":
                return
            try:
                (mode,) = execute("pragma journal_mode = wal").fetchone()
            except sqlite3.OperationalError as error:
                if not is_busy(error):
                    raise
                if time.monotonic() > deadline:
                    raise StoreUnavailable(
                        f"{self.path} is not in WAL mode, and was in use for {BUSY_SECONDS:.0f} s, so that it cannot "
                        "be put into it: end what has it open"
                    ) from error
                time.sleep(_POLL_MOST)
                continue
            if mode != "wal":
                raise StoreError(
                    f"{self.path} cannot be in WAL mode (it stays in {mode!r}): move the state folder to a local disk"
                )

    def _line_up(self, link: SqliteConnection) -> None:
        """Wait for a turn: first for the side file, then, as the only process, for the database."""
        began = time.monotonic()
        execute, side = link.execute, link.side
        pause = _POLL_LINE
        turn = False
        try:
            while True:
                turn = turn or _try_lock(side)
                if turn:
                    try:
                        execute("begin immediate")
                    except sqlite3.OperationalError as error:
                        if not is_busy(error):
                            raise
                    else:
                        return
                waited = time.monotonic() - began
                if waited > BUSY_SECONDS:
                    raise StoreUnavailable(f"{self.path} was busy for {BUSY_SECONDS:.0f} s")
                time.sleep(_POLL_DATABASE if turn else pause)
                pause = min(pause * 1.5, _POLL_SOON if waited < _PATIENT else _POLL_MOST)
        finally:
            if turn:
                _unlock(side)


def _try_lock(file: int) -> bool:
    """Lock a file for this process, unless another one has it; without file locks each process goes on."""
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _unlock(file: int) -> None:
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_UN)


def _pairs(file: int) -> tuple[int, ...]:
    """Return inode and entry that waiting processes committed last, and those of what is synced."""
    return _PAIRS.unpack(os.pread(file, _PAIRS.size, 0).ljust(_PAIRS.size, b"\0"))


def _sync_file(file: int) -> None:
    if _FULL_SYNC is not None:  # macOS: fsync alone stops at the drive's cache
        fcntl.fcntl(file, _FULL_SYNC)
    else:
        _fdatasync(file)


def _header(path: Path) -> tuple[int, int, bool]:
    """Return application id and format of a file, and whether it has tables, without changing it.

    SQLite is asked, because until the first checkpoint they are only in the log, and never a descriptor of its own.
    Closing a descriptor releases all locks of this process on the file (POSIX); another process that closes would then
    take itself for the last one and remove the log.
    """
    address = f"{path.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None)) as connection:
        connection.execute("begin")  # one moment, because another process may be creating the file
        (owner,) = connection.execute("pragma application_id").fetchone()
        (version,) = connection.execute("pragma user_version").fetchone()
        tables = connection.execute("select 1 from sqlite_master limit 1").fetchone()
    return owner, version, tables is not None


def format_of(path: Path) -> int | None:
    """Return the format, None without tables. Raises ``StoreError`` for another program's file and another format."""
    if not path.exists() or path.stat().st_size == 0:
        return None
    with explained(path):
        owner, version, _ = _header(path)
    if owner != APPLICATION_ID:
        raise StoreError(f"{path} is not a database of Callosum")
    if version != SCHEMA:
        raise unreadable(path, version)
    return version


def unreadable(path: Path, version: int) -> StoreError:
    """Return the error for a file of another format, with the command that sets it aside together with its receipt."""
    if version > SCHEMA:
        return StoreError(
            f"{path} has format {version}, this version reads {SCHEMA}: install a newer callosum-protocol"
        )
    aside = quote(f"{path.parent}/format-{version}")
    return StoreError(
        f"{path} has format {version} of an earlier Callosum, which this version does not read: "
        f"set it aside with `mkdir {aside} && mv {quote(str(path))}* {aside}`"
    )


def refuse_foreign(path: Path) -> None:
    """Raise ``StoreError`` for a file of another program, before SQLite may write into it."""
    left = "it was left as it is; move it away or name another state folder"
    if path.stat().st_size < 512:  # SQLite's smallest page; it takes a shorter file for an empty database
        raise StoreError(f"{path} is not a database of Callosum: {left}")
    try:
        owner, _, has_tables = _header(path)
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_NOTADB:
            raise
        raise StoreError(f"{path} is not a database of Callosum: {left}") from error
    if owner != APPLICATION_ID and (owner or has_tables):
        raise StoreError(f"{path} is a database of another program: {left}")


# --- Faults -------------------------------------------------------------------------------------------


def code_of(error: BaseException) -> int:
    """Return SQLite's primary code of an error, 0 if it has none."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def is_busy(error: sqlite3.Error) -> bool:
    """Return True if another connection holds what this one needs."""
    return code_of(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def is_damage(error: Exception) -> bool:
    """Return True if the file is damaged."""
    return code_of(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn the driver's errors into Callosum's."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise explain(error, path) from error


def explain(error: Exception, path: Path) -> StoreError:
    """Return the driver's error as Callosum's; it stays in ``__cause__``."""
    code, number = code_of(error), error.errno if isinstance(error, OSError) else 0
    if is_damage(error):
        return StoreError(
            f"{path} is damaged ({error}): it was left as it is; run `callosum doctor`, "
            "then move it away to start afresh"
        )
    if code == sqlite3.SQLITE_FULL or number in (errno.ENOSPC, errno.EDQUOT):
        return StoreUnavailable(f"no room left for {path}: nothing of this call was recorded")
    if number == errno.EROFS:
        return StoreUnavailable(f"{path}: its file system is mounted read-only: {error}")
    if isinstance(error, sqlite3.ProgrammingError) and "closed" in str(error):
        return StoreUnavailable(f"{path} was opened anew meanwhile")
    if code == sqlite3.SQLITE_READONLY or isinstance(error, PermissionError):
        return StoreUnavailable(f"{path} cannot be written: {error}")
    is_ours = code == sqlite3.SQLITE_ERROR or isinstance(error, sqlite3.ProgrammingError | sqlite3.InterfaceError)
    return (StoreError if is_ours else StoreUnavailable)(f"{path}: {error}")
