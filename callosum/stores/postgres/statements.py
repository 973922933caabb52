"""The statements of the PostgreSQL engine.

Each connection prepares and plans a statement once, without knowing its parameters: ``connections`` has the settings
that make every plan use indexes. A parameter that is an array states its type.
"""

from __future__ import annotations

from typing import Final

from callosum.stores.receipt import IDENTITY, LEFT

_CLOCK: Final = "(extract(epoch from clock_timestamp()) * 1000000)::bigint"
LAZY: Final = "set local synchronous_commit = off"
# A transaction has a number before its moment is read, so a reader of the journal sees that it is under way.
LOCK: Final = (
    "select count(l), pg_current_xact_id()::text from (select case when n.shared "
    "then pg_advisory_xact_lock_shared(n.lock) else pg_advisory_xact_lock(n.lock) end as l "
    "from unnest($1::bigint[], $2::bool[]) n(lock, shared)) taken"
)
"""Take locks in the order of the array."""
MOMENTS: Final = f"select {_CLOCK}, (select max(seq) from journal)"  # noqa: S608
GET: Final = "select name, value, revision from record where name = any($1::bytea[])"
GET_OF_ENTRY: Final = (
    "select seq, record, xmin::text::bigint from journal where seq = any($1::bigint[]) and record is not null"
)
SCAN: Final = "select name, value, revision from record where name >= $1 and name < $2 order by name limit $3"
SCAN_NEWEST: Final = (
    "select name, value, revision from record where name >= $1 and name < $2 order by name desc limit $3"
)
OPENERS: Final = "select namespace, session, keys from journal where seq = any($1::bigint[])"
"""What the locks of an action follow from."""

_ENTRY: Final = (
    "e.seq, e.event, e.namespace, e.session, e.action, coalesce(e.run, a.run), coalesce(e.tool, a.tool), "
    "coalesce(e.tier, a.tier), e.verdict, e.rule, e.outcome, coalesce(e.keys, a.keys), e.body"
)
_PAGE: Final = (
    "from journal e left join journal a on a.seq = e.action and e.action <> e.seq "
    "where e.seq > $1 and e.seq <= $2 and ($3::text is null or e.namespace = $3) "
    "and ($4::text is null or e.session = $4) and ($5::text is null or coalesce(e.key, a.key) = $5) order by e.seq"
)
PAGE: Final = f"select {_ENTRY} {_PAGE} limit $6"
PAGE_NEWEST: Final = f"select {_ENTRY} {_PAGE} desc limit $6"
# With the running transactions: any of them may still add an entry before the last of these.
_RUNNING: Final = "array(select (x::text::numeric % 4294967296)::bigint from pg_snapshot_xip(pg_current_snapshot()) x)"
PAGE_NOW: Final = f"select {_ENTRY}, {_RUNNING} {_PAGE} limit $6"
PAGE_NOW_NEWEST: Final = f"select {_ENTRY}, {_RUNNING} {_PAGE} desc limit $6"
UNDER_WAY: Final = (
    "select t.transactionid::text::bigint from pg_locks r join pg_locks t "
    "on t.virtualtransaction = r.virtualtransaction and t.pid = r.pid where r.locktype = 'advisory' "
    "and r.database = (select oid from pg_database where datname = current_database()) and r.objsubid = 1 "
    "and ((r.classid::bigint << 32) | r.objid::bigint) = $1 "
    "and t.locktype = 'transactionid' and t.mode = 'ExclusiveLock' and t.granted"
)
"""The transactions that hold a lock."""
BODIES: Final = "select seq, body from journal where seq = any($1::bigint[]) and namespace = $2 and body is not null"
OPENED: Final = (
    "select seq from (select seq, namespace, session, record is not null as opened from journal "
    "order by seq desc limit $1) j where opened and namespace = $2 "
    "and ($3::text[] is null or session = any($3::text[])) order by seq desc limit $4"
)
COUNT: Final = "select count(*) from journal"

FLOOR: Final = "floor"
"""Name of the position up to which readers of the journal have seen everything: no entry gets one below it."""
_FLOOR: Final = f"coalesce((select value::bigint from meta where name = '{FLOOR}'), 0)"  # noqa: S608
# What was not so divides by zero, and so undoes the transaction. A moment is an estimate, so it may be a little early.
CHECK: Final = (
    f"select 1 / (case when $3::bigint > {_FLOOR} and (case when $4::int = 1 then $3 > last "  # noqa: S608
    "else $3 > clock - 2000000 and $3 <= greatest(clock + 100000, last + 1) end) and not exists("
    "select 1 from unnest($1::bytea[], $2::bigint[]) n(name, revision) left join record r on r.name = n.name "
    "where coalesce(r.revision, 0) <> n.revision) then 1 else 0 end) "
    f"from (select {_CLOCK}, (select coalesce(max(seq), 0) from journal)) now(clock, last)"
)
CHECK_OF_ENTRIES: Final = (
    "select 1 / (case when exists(select 1 from unnest($1::bigint[], $2::bigint[]) n(seq, revision) "
    "left join journal j on j.seq = n.seq and j.record is not null "
    "where coalesce(j.xmin::text::bigint, 0) <> n.revision) then 0 else 1 end)"
)
SETTLE: Final = (
    "with last as (select coalesce(max(seq), 0) as seq from journal), raised as ("  # noqa: S608
    f"insert into meta select '{FLOOR}', seq::text from last where seq > {_FLOOR} on conflict(name) do update "
    "set value = greatest(meta.value::bigint, excluded.value::bigint)::text) "
    "select seq, set_config('synchronous_commit', 'off', true) from last"
)
"""Raise the floor to the newest entry, and return it."""

PUT: Final = (
    "insert into record select name, value, $3::bigint from unnest($1::bytea[], $2::bytea[]) n(name, value) "
    "on conflict(name) do update set value = excluded.value, revision = excluded.revision"
)
DELETE: Final = "delete from record where name = any($1::bytea[])"
# What changed since it was read stays as it is.
PUT_AS_READ: Final = (
    "update record r set value = n.value, revision = $4::bigint "
    "from unnest($1::bytea[], $2::bytea[], $3::bigint[]) n(name, value, revision) "
    "where r.name = n.name and r.revision = n.revision"
)
DELETE_AS_READ: Final = (
    "delete from record r using unnest($1::bytea[], $2::bigint[]) n(name, revision) "
    "where r.name = n.name and r.revision = n.revision"
)
ADD: Final = (
    "insert into journal(token, seq, event, namespace, session, action, run, tool, tier, verdict, rule, outcome, key, "
    "keys, body, record) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)"
)
PUT_OF_ENTRY: Final = (
    "update journal j set record = n.record from unnest($1::bigint[], $2::bytea[]) n(seq, record) where j.seq = n.seq"
)
DROP: Final = (
    "delete from journal j using unnest($1::bigint[], $2::bigint[]) n(seq, revision) "
    "where j.seq = n.seq and (n.revision = 0 or j.xmin::text::bigint = n.revision)"
)
COMMITTED: Final = "select seq from journal where seq = $1 and token = $2"
# A notification makes all commits of the database run one after another, so none is sent while nobody waits in a queue.
NOTIFY: Final = (
    "select pg_notify($1, $2) where $3::int = 1 "
    "or exists(select 1 from record where name >= 'q'::bytea and name < 'r'::bytea)"
)

PUT_FACT: Final = "insert into meta values($1, $2) on conflict(name) do update set value = excluded.value"
RAISE_FACT: Final = (
    "insert into meta values($1, $2) on conflict(name) do update set value = "
    "greatest(meta.value::bigint, excluded.value::bigint)::text"
)
ADD_FACT: Final = "insert into meta values($1, $2) on conflict(name) do nothing"
KEPT: Final = (
    f"select (select value from meta where name = '{IDENTITY}'), "  # noqa: S608
    "(select $1::bigint where not exists(select 1 from journal where seq = $1::bigint)), "
    f"(select value from meta where name = '{LEFT}'), (select value from meta where name = $2)"
)
_JOURNAL_SIZE: Final = "(select sum(pg_total_relation_size(relid)) from pg_partition_tree('journal'))::bigint"
_OTHER_SIZES: Final = "pg_total_relation_size('record') + pg_total_relation_size('meta')"
SIZES: Final = (
    f"select {_JOURNAL_SIZE}, (select sum(n_live_tup)::bigint from pg_stat_user_tables where relid in "  # noqa: S608
    "(select relid from pg_partition_tree('journal'))), (select avg(pg_column_size(j.*)) from "
    f"(select * from journal order by seq desc limit 500) j), {_OTHER_SIZES}"
)
HEALTH: Final = (
    "select (select version from schema_version), (select count(*) from journal), "  # noqa: S608
    f"{_JOURNAL_SIZE} + {_OTHER_SIZES}, current_setting('fsync'), current_setting('synchronous_commit')"
)

PARTS: Final = (
    "select c.relname::text, pg_get_expr(c.relpartbound, c.oid) from pg_inherits i "
    "join pg_class c on c.oid = i.inhrelid where i.inhparent = 'journal'::regclass"
)
SPAN: Final = f"select {_CLOCK}, min(seq), max(seq) from journal"  # noqa: S608
ANY_BETWEEN: Final = "select 1 from journal where seq >= $1 and seq < $2 limit 1"
