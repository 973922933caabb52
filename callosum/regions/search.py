"""Cortex searches the journal, including its rotated segments, and the memory pages.

The index is ``<state>/brain/search.db`` (``search_index``). It is derived data: if it is deleted, the next ``index``
builds it again. ``search_query`` describes the query syntax.

Several processes may index at once. Entries are read without a lock and written in short transactions. Each transaction
first checks that the index still ends where the reading began. So no entry is indexed twice and none is missed, even
when a process dies in the middle.
"""

from __future__ import annotations

import logging
import os
import re
import sqlite3
import stat
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from callosum.corpus.bus import Corpus
from callosum.corpus.events import CortexReindexed, SchedulerTick
from callosum.corpus.fault_reports import report_failed_job
from callosum.errors import ConfigError
from callosum.journal import Journal, shown_keys
from callosum.model import MINUTE, SECOND, Entry
from callosum.regions.search_index import COLUMNS, IndexFile, begin, commits
from callosum.regions.search_query import match_of, plain
from callosum.stores.base import Store

logger = logging.getLogger("callosum")

JOB: Final = "index"
"""The scheduler's job that updates the index."""
BUDGET: Final = 50_000
"""Most entries and pages indexed on one tick, a few seconds of work: an old journal is indexed bit by bit."""
MAX_HITS: Final = 1000
MAX_TEXT: Final = 4000
"""Characters of an entry's params that are indexed; of its result and its notes a quarter each."""
MAX_PAGE: Final = 500_000
"""Characters of a page that are indexed."""
RANKED: Final = 20_000
"""Most matches that are ranked. Beyond it only the newest are."""

_CHUNK: Final = 1000
"""Entries in one transaction, about 50 ms of work."""
_PAGES: Final = 2**62
"""First row number of pages. Pages come before the newest entry when rows are read from last to first."""
_END: Final = 2**63 - 1
_DEEPEST: Final = 40
_QUARTER: Final = 15 * MINUTE
_KINDS: Final = {"episodes": "episode", "digests": "digest", "topics": "topic"}
_NO_TEXT: Final = frozenset("conflicts count cwd details gap known origin params pause purpose until".split())
"""Fields of an entry's body that hold no text, or that are indexed separately."""
_SHOWN: Final = ("session", "tool", "key", "answer", "text")
_WEIGHTS: Final = "2.0, 3.0, 4.0, 1.0, 1.0, 1.0"
"""Weight of a match by column: a key counts most, then a tool's name."""
_SNIPPET: Final = 28
"""Words of a text that are shown."""
_ON, _OFF = "\x02", "\x03"
"""Marks around a match. No indexed text contains these characters."""


class SearchHit(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A journal entry or a page that matches the query.

    ``at`` is in Unix seconds: the moment of an entry, or the last write of a page. ``kind`` is ``entry``, ``episode``,
    ``digest`` or ``topic``. An entry has its ``seq`` in the journal, a page its ``path`` below ``brain/``. ``key`` is
    the first key that matched, else the entry's first key. ``answer`` holds the kind of entry, the verdict or outcome
    and the conflicts: ``intercept confirm recent``. ``text`` is the best matching excerpt, on one line. ``marks`` holds
    the matches in each field, as pairs of start and end in characters. ``score`` is higher for better matches; it only
    compares hits of one search.
    """

    at: float
    kind: str
    score: float
    text: str
    seq: int = 0
    path: str = ""
    namespace: str = ""
    session: str = ""
    tool: str = ""
    key: str = ""
    answer: str = ""
    marks: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)


class _Row(NamedTuple):
    """A row of table ``doc``."""

    id: int
    at: int
    namespace: str = ""
    session: str = ""
    tool: str = ""
    keys: str = ""
    answer: str = ""
    text: str = ""
    day: str = ""

    @property
    def words(self) -> tuple[Any, ...]:
        """The matching row of table ``words``."""
        return (self.id, *self[3:])


class _File(NamedTuple):
    """A page on disk: a stamp of its file's state, and the moment it was written."""

    stamp: str
    at: int


class Cortex:
    """Maintain and search the index. Its methods may be called from any thread.

    The tick of its job updates the index. If that fails, ``health.warning`` (``job.index``) is emitted, and the next
    tick tries again. ``state`` is the state folder; nothing is created in it before there is something to index. Raises
    ``ConfigError`` if this Python's SQLite has no full text search.
    """

    def __init__(self, corpus: Corpus, *, store: Store, state: Path) -> None:
        self.folder = state / "brain"
        self._file = IndexFile(self.folder / "search.db")
        self._corpus = corpus
        self._store = store
        self._journal = Journal(store, state)
        self._turn = threading.Lock()
        self._closed = threading.Event()
        self._off = corpus.on(SchedulerTick, self._tick)

    def close(self) -> None:
        """End the subscription; a running ``index`` stops after its next transaction. Idempotent."""
        self._closed.set()
        self._off()

    # --- indexing ------------------------------------------------------------------------------------

    def index(self, budget: int | None = None) -> int:
        """Index new journal entries, and pages that were added, changed or removed.

        Returns the number of entries and pages, at most ``budget``. A smaller number means that everything is indexed,
        or that another process is indexing. Emits ``cortex.reindexed`` once for the journal and once for each page.

        Raises ``StoreUnavailable`` if the folder or the journal cannot be used now, ``StoreError`` if a newer Callosum
        made the index. What was indexed before the error stays.
        """
        changes: dict[str, str] = {}
        try:
            with self._turn:
                return self._file.repairing(lambda: self._index(_END if budget is None else budget, changes))
        finally:
            for path, action in changes.items():
                self._corpus.emit(CortexReindexed(path, action))

    def upto(self) -> int:
        """Return the moment up to which the journal is indexed; 0 if nothing is."""
        return self._file.repairing(self._upto)

    def _tick(self, tick: SchedulerTick) -> None:
        if tick.job_name != JOB or self._closed.is_set():
            return
        try:
            self.index(BUDGET)
        except Exception as fault:  # noqa: BLE001 - reported; the next tick tries again
            report_failed_job(self._corpus.emit, JOB, fault)

    def _upto(self) -> int:
        with self._file.reading() as db:
            return _watermark(db) if db is not None else 0

    def _index(self, budget: int, changes: dict[str, str]) -> int:
        files = self._files()
        if not files and not self._file.exists() and not self._store.entries(limit=1) and not self._journal.segments():
            return 0
        with self._file.writing() as db:
            taken = self._index_pages(db, files, budget, changes)
            return taken + self._index_journal(db, budget - taken, changes)

    def _index_journal(self, db: sqlite3.Connection, budget: int, changes: dict[str, str]) -> int:
        taken = looked = 0
        after = self._start(db)
        entries = self._journal.read(after=after)
        while looked < budget and not self._closed.is_set():
            rows = [_row_of(entry) for entry in islice(entries, min(_CHUNK, budget - looked))]
            if not rows or not begin(db):
                break
            with commits(db):
                end = _watermark(db)
                if end == after:
                    taken += _add(db, rows)
                    db.execute("update meta set value = ? where name = 'seq'", (rows[-1].id,))
            if end != after:  # another process was faster: continue where it stopped
                after = end
                entries = self._journal.read(after=after)
                continue
            after = rows[-1].id
            looked += len(rows)
            if taken:
                changes["journal"] = "added"
        return taken

    def _start(self, db: sqlite3.Connection) -> int:
        """Return the ``seq`` after which to index: the end of the index, or 0 if the journal ends before it.

        In that case it is another journal: its file was removed, and the clock was ahead before. It is read from its
        beginning, and entries that are already indexed are skipped.
        """
        after = _watermark(db)
        newest = self._store.entries(limit=1, newest=True)
        if not newest or newest[0].seq >= after:
            return after
        logger.warning("%s: the journal ends before the index does; it is indexed from its beginning", self._file.path)
        if begin(db):
            with commits(db):
                db.execute("update meta set value = 0 where name = 'seq' and value = ?", (after,))
        return _watermark(db)

    # --- indexing: pages -----------------------------------------------------------------------------

    def _index_pages(
        self, db: sqlite3.Connection, files: dict[str, _File], budget: int, changes: dict[str, str]
    ) -> int:
        stamps = dict(db.execute("select path, stamp from page").fetchall())
        taken = 0
        for path in sorted(stamps.keys() | files.keys()):
            if taken >= budget or self._closed.is_set():
                break
            if path in files and stamps.get(path) == files[path].stamp:
                continue
            page = self._page(path)
            if not begin(db):
                break
            with commits(db):
                action = _put(db, path, *page) if page is not None else _drop(db, path)
            if action:
                changes[path] = action
                taken += 1
        return taken

    def _files(self) -> dict[str, _File]:
        """Return the existing pages, by path."""
        files = {}
        for folder in _KINDS:
            with suppress(OSError), os.scandir(self.folder / folder) as listed:
                for item in listed:
                    name = item.name
                    if (
                        name.endswith(".md")
                        and not name.startswith(".")
                        and name == plain(name)
                        and item.is_file(follow_symlinks=False)
                    ):
                        with suppress(OSError):  # the file was removed meanwhile
                            files[f"{folder}/{name}"] = _file_of(item.stat(follow_symlinks=False))
        return files

    def _page(self, path: str) -> tuple[_File, str] | None:
        """Return a page's file state and text; None if the file is missing or not a regular file."""
        flags = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        try:
            handle = os.open(self.folder / path, flags)
        except OSError:
            return None
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                return None
            text = file.read(4 * MAX_PAGE).decode(errors="replace")
        return _file_of(status), plain(text[:MAX_PAGE]).strip()

    # --- searching -----------------------------------------------------------------------------------

    def search(
        self,
        query: str,
        *,
        limit: int = 20,
        namespace: str | None = None,
        session: str | None = None,
        since: int | None = None,
    ) -> list[SearchHit]:
        """Return the best matches for the query, best first; the newest first among equals.

        ``search_query`` describes the syntax of ``query``. ``limit`` is at most ``MAX_HITS``. ``session`` may contain
        ``*`` for any text. With ``session`` or ``namespace`` no pages are returned, because pages cover all sessions.
        ``since`` is a moment. Searching does not index: entries that are not indexed yet are not found.

        Raises ``ConfigError`` at ``query`` if it has no word to search for or too many words, and at ``limit``;
        ``StoreUnavailable`` if the index cannot be read.
        """
        if not 0 < limit <= MAX_HITS:
            raise ConfigError(f"expected 1 to {MAX_HITS}", at="limit")
        wanted = match_of(query, None if session is None or "*" in session else session)
        return self._file.repairing(
            lambda: self._search(wanted, limit, namespace, session, since), lambda: self.index(BUDGET)
        )

    def _search(
        self, wanted: str, limit: int, namespace: str | None, session: str | None, since: int | None
    ) -> list[SearchHit]:
        end, where = _END, "doc.at >= ?"
        values: list[object] = [since or 0]
        if namespace is not None or session is not None:
            end = _PAGES - 1
        if namespace is not None:
            where += " and doc.namespace = ?"
            values.append(namespace)
        if session is not None:
            where += " and doc.session glob ?" if "*" in session else " and doc.session = ?"
            values.append(re.sub(r"[\[?]", r"[\g<0>]", session) if "*" in session else session)
        with self._file.reading() as db:
            if db is None:
                return []
            db.execute("begin")  # both queries read the same state of the index
            best = _best(db, wanted, (since or 0, end), where, values, limit)
            return _hits(db, wanted, best)


# --- finding ------------------------------------------------------------------------------------------


def _best(
    db: sqlite3.Connection, wanted: str, ids: tuple[int, int], where: str, values: Sequence[object], limit: int
) -> dict[int, float]:
    """Return the best rows in this range of ids, best first, each with its score (lower is better)."""
    # For a very frequent word only the newest matches are ranked, so that the search stays fast.
    newest = (
        f"select doc.id as id, doc.at as at, bm25(words, {_WEIGHTS}) as score "  # noqa: S608  constants
        "from words cross join doc on doc.id = words.rowid "
        f"where words match ? and words.rowid between ? and ? and {where} order by words.rowid desc limit {RANKED}"
    )
    best = f"select id, score from ({newest}) order by round(score, 1), at desc limit ?"  # noqa: S608  constants
    return dict(db.execute(best, (wanted, *ids, *values, limit)).fetchall())


def _hits(db: sqlite3.Connection, wanted: str, best: Mapping[int, float]) -> list[SearchHit]:
    """Return the rows as hits with their matches marked, in the same order."""
    if not best:
        return []
    marked = ", ".join(f"highlight(words, {column}, '{_ON}', '{_OFF}')" for column in range(4))
    # The plus keeps SQLite from querying the full text index once for each row, which is slow for prefixes.
    rows = db.execute(
        "select doc.id, doc.at, doc.namespace, page.path, "  # noqa: S608  constants
        f"{marked}, snippet(words, 4, '{_ON}', '{_OFF}', '…', {_SNIPPET}) "
        "from words cross join doc on doc.id = words.rowid left join page on page.id = doc.id "
        "where words match ? and words.rowid between ? and ? and +words.rowid in (select value from json_each(?))",
        (wanted, min(best), max(best), f"[{','.join(map(str, best))}]"),
    )
    hits = {row[0]: _hit(row, best[row[0]]) for row in rows}
    return [hits[id] for id in best]


def _hit(row: Sequence[Any], score: float) -> SearchHit:
    id, at, namespace, path, session, tool, keys, answer, text = row
    key = next((key for key in keys.split("\n") if _ON in key), keys.partition("\n")[0])
    kind = _KINDS[path.partition("/")[0]] if path is not None else "entry"
    facts: dict[str, Any] = {"path": path} if path is not None else {"seq": id, "namespace": namespace}
    marks: dict[str, tuple[tuple[int, int], ...]] = {}
    for name, value in zip(_SHOWN, (session, tool, key, answer, text), strict=True):
        facts[name], spans = _unmarked(value)
        if spans:
            marks[name] = spans
    return SearchHit(at=at / SECOND, kind=kind, score=round(-score, 3), marks=marks, **facts)


def _unmarked(text: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Remove the marks from a text; return it with the spans they marked."""
    first, *rest = text.split(_ON)
    parts, offset, spans = [first], len(first), []
    for piece in rest:
        matched, _, after = piece.partition(_OFF)
        spans.append((offset, offset + len(matched)))
        parts += (matched, after)
        offset += len(matched) + len(after)
    return "".join(parts), tuple(spans)


# --- index rows --------------------------------------------------------------------------------------


def _row_of(entry: Entry) -> _Row:
    """Return the row for an entry."""
    body = entry.body
    kinds = dict.fromkeys(
        str(conflict.get("kind", "")) for conflict in body.get("conflicts", ()) if isinstance(conflict, Mapping)
    )
    parts = [_words(body.get("params"), MAX_TEXT)]
    parts += [_words({name: value}, MAX_TEXT // 4) for name, value in body.items() if name not in _NO_TEXT]
    return _Row(
        entry.seq,
        entry.seq,
        plain(entry.namespace),
        plain(entry.session),
        plain(entry.tool),
        "\n".join(map(plain, shown_keys(entry))),
        " ".join(filter(None, (entry.event, entry.verdict, entry.outcome, *kinds))),
        plain(" · ".join(filter(None, parts))),
        _day(entry.seq // _QUARTER),
    )


def _words(value: Any, room: int, depth: int = _DEEPEST) -> str:
    """Return a JSON value as text of about ``room`` characters: names and values, without brackets.

    Values nested deeper than ``_DEEPEST`` are left out.
    """
    if isinstance(value, str):
        return value[:room]
    items: Iterable[tuple[Any, Any]]
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, list | tuple):
        items = (("", inner) for inner in value)
    else:
        return "" if value is None else str(value).lower()[:room]
    parts: list[str] = []
    for name, inner in items if depth else ():
        if room <= 0:
            break
        part = f"{str(name)[:room]}: " if name != "" else ""
        parts.append(part + _words(inner, max(0, room - len(part)), depth - 1))
        room -= len(parts[-1]) + 2
    return ", ".join(parts)


@lru_cache(maxsize=64)
def _day(quarter: int) -> str:
    """Return the local day of a quarter of an hour, as one word. No time zone changes its day within a quarter."""
    try:
        return datetime.fromtimestamp(quarter * _QUARTER // SECOND, UTC).astimezone().strftime("%Y%m%d")
    except (ValueError, OverflowError, OSError):  # a clock beyond the range of calendars
        return ""


def _add(db: sqlite3.Connection, rows: Sequence[_Row]) -> int:
    """Add entries that are not indexed yet; return their number."""
    indexed = {id for (id,) in db.execute("select id from doc where id between ? and ?", (rows[0].id, rows[-1].id))}
    new = [row for row in rows if row.id not in indexed]
    db.executemany(f"insert into doc values({', '.join('?' * len(_Row._fields))})", new)
    _add_words(db, new)
    return len(new)


def _add_words(db: sqlite3.Connection, rows: Sequence[_Row]) -> None:
    db.executemany(f"insert into words(rowid, {COLUMNS}) values(?, ?, ?, ?, ?, ?, ?)", [row.words for row in rows])


def _put(db: sqlite3.Connection, path: str, file: _File, text: str) -> str:
    """Add or change a page; return ``added`` or ``changed``, "" if its text is the same."""
    page_row = db.execute("select id from page where path = ?", (path,)).fetchone()
    if page_row is None:
        (id,) = db.execute("select max(?, coalesce(max(id), 0) + 1) from doc", (_PAGES,)).fetchone()
    else:
        (id,) = page_row
        (before,) = db.execute("select text from doc where id = ?", (id,)).fetchone()
        if before == text:
            db.execute("update page set stamp = ? where id = ?", (file.stamp, id))
            db.execute("update doc set at = ? where id = ?", (file.at, id))
            return ""
        _drop(db, path)
    row = _Row(id, file.at, text=text)
    db.execute(f"insert into doc values({', '.join('?' * len(row))})", row)
    _add_words(db, [row])
    db.execute("insert into page values(?, ?, ?)", (id, path, file.stamp))
    return "added" if page_row is None else "changed"


def _drop(db: sqlite3.Connection, path: str) -> str:
    """Remove a page; return ``removed``, "" if it was not indexed."""
    row = db.execute("select doc.* from page join doc on doc.id = page.id where page.path = ?", (path,)).fetchone()
    if row is None:
        return ""
    words = _Row(*row).words
    db.execute(f"insert into words(words, rowid, {COLUMNS}) values('delete', ?, ?, ?, ?, ?, ?, ?)", words)
    db.execute("delete from doc where id = ?", words[:1])
    db.execute("delete from page where id = ?", words[:1])
    return "removed"


def _file_of(status: os.stat_result) -> _File:
    return _File(f"{status.st_mtime_ns}-{status.st_size}-{status.st_ino}", status.st_mtime_ns // 1000)


def _watermark(db: sqlite3.Connection) -> int:
    """Return the ``seq`` of the last indexed entry."""
    (seq,) = db.execute("select value from meta where name = 'seq'").fetchone()
    return int(seq)
