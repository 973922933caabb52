"""The statements of the SQLite engine."""

from __future__ import annotations

from typing import Final

from callosum.stores.receipt import IDENTITY, LEFT

MOST: Final = 12
"""Maximum number of records that one statement reads or writes."""
VERSION: Final = "pragma data_version"
NEWEST: Final = "select max(seq) from journal"
GET: Final = [
    f"select {', '.join(['(select value from record where name = ?)'] * count)}"  # noqa: S608
    for count in range(MOST + 1)
]
"""Read records, by their number."""
PUT: Final = [
    "insert into record values "  # noqa: S608
    f"{','.join(['(?, ?)'] * count)} on conflict(name) do update set value = excluded.value"
    for count in range(MOST + 1)
]
GET_OF_ENTRY: Final = [
    f"select {', '.join(['(select record from journal where seq = ?)'] * count)}"  # noqa: S608
    for count in range(MOST + 1)
]
"""Read the records of entries, by their number."""
PUT_OF_ENTRY: Final = "update journal set record = ? where seq = ?"
DELETE: Final = "delete from record where name = ?"
SCAN: Final = "select name, value from record where name >= ? and name < ? order by name limit ?"
SCAN_NEWEST: Final = "select name, value from record where name >= ? and name < ? order by name desc limit ?"

_ENTRY: Final = (
    "select e.seq, e.event, e.namespace, e.session, e.action, coalesce(e.run, a.run), coalesce(e.tool, a.tool), "
    "coalesce(e.tier, a.tier), e.verdict, e.rule, e.outcome, coalesce(e.keys, a.keys), e.body "
    "from journal e left join journal a on a.seq = e.action and e.action <> e.seq"
)
BODIES: Final = (
    "select seq, body from journal where seq in (select value from json_each(?)) and namespace = ? and body is not null"
)
_PAGE: Final = (
    f"{_ENTRY} where e.seq > ?1 and (?2 is null or e.namespace = ?2) and (?3 is null or e.session = ?3) "
    "and (?4 is null or coalesce(e.key, a.key) = ?4) order by e.seq"
)
PAGE: Final = f"{_PAGE} limit ?5"
PAGE_NEWEST: Final = f"{_PAGE} desc limit ?5"
ADD_NOTE: Final = (
    "insert into journal(seq, event, namespace, session, action, outcome, body) values (?, ?, ?, ?, ?, ?, ?)"
)
ADD_ENTRY: Final = "insert into journal values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
DROP_ENTRIES: Final = "delete from journal where seq in (select value from json_each(?))"
_OPENED: Final = (
    "select seq from journal "
    "where seq >= coalesce((select seq from journal order by seq desc limit 1 offset ?1 - 1), 0) "
    "and %s and namespace = ?2 and record is not null order by seq desc limit ?4"
)
OPENED_BY: Final = _OPENED % "session = ?3"
OPENED_BY_ANY: Final = _OPENED % "(?3 is null or session in (select value from json_each(?3)))"
COUNT: Final = "select count(*) from journal"

FACT: Final = "select value from meta where name = ?"
SET_FACT: Final = "insert into meta values(?, ?) on conflict(name) do update set value = excluded.value"
ADD_FACT: Final = "insert or ignore into meta values(?, ?)"
KEPT: Final = (
    f"select (select value from meta where name = '{IDENTITY}'), (select value from meta where name = '{LEFT}'), "  # noqa: S608
    "(select value from meta where name = ?2), "
    "(select ?1 where not exists(select 1 from journal where seq = ?1))"
)
CLOCK: Final = (
    "select (select value from meta where name = 'clock'), "  # noqa: S608
    f"exists(select 1 from record where name >= x'6f' and name < x'70'), ({NEWEST})"
)
"""The agreed clock, whether leases are open, and the newest entry."""
PROVE: Final = "insert into meta values('proof', ?) on conflict(name) do update set value = excluded.value"
PAGES: Final = (
    "select (select page_count from pragma_page_count), (select freelist_count from pragma_freelist_count), "
    "(select page_size from pragma_page_size)"
)
