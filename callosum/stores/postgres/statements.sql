-- The statements of the PostgreSQL store, except the settings of a connection (connections.py) and the creation of partitions
-- (partitions.py). schema1.sql and later describe the tables; statements.py says where the numbers come from. A parameter
-- that is an array states its type. Each connection prepares and plans a statement once: see connections.py.

-- ======== A step's view: view.py =====================================================================

-- name: now
(extract(epoch from clock_timestamp()) * 1000000)::bigint
-- seq + 0: otherwise the planner, if it expects many entries of the call, walks back through the journal by seq until it
-- finds one, and for a new call there is none. Without statistics, in a new store or partition, it expects many.
-- name: head
select {now}, (select max(seq) from journal), (select value from meta where name = 'observe'),
s.seen, s.parent, s.continues, (select max(seq + 0) from journal where call = %(call)s::bytea),
array(select key from cover where key = any(%(above)s::text[]))
from (values(1)) v left join session s on s.namespace = %(space)s and s.name = %(me)s

-- All rows have the same columns: the sort ('m' a mark, 'l' a live action, 'a' an action below, 's' a stale change below),
-- the key through which it was found, the mark, the action, the params of an approved question.
-- The condition on changed makes the planner read the marks in order of their last change, however many there are.
-- name: around
select 'm', m.key, {mark}, {action}, null::bytea from (
select * from mark where key = any(%(names)s::text[]) and session = %(me)s
union all select m.* from unnest(%(names)s::text[]) k(name) cross join lateral (select * from mark
where key = k.name and session <> %(me)s and acted is not null and changed >= 0
order by changed desc limit {latest}) m) m
left join journal j on j.seq = m.acted where m.session = %(me)s or j.seq is not null
-- name: params
case when j.approved > 0 and j.session = %(me)s then (select value from meta where name = 'params:' || j.seq) end
-- name: living
select 'l', l.key, null::text, null::bigint, null::bigint, null::int, null::bytea, null::bigint, {action}, {params}
-- name: live
{living} from (select key, id from live where key = any(%(names)s::text[]) and open = 2
union all select l.key, l.id from unnest(%(names)s::text[]) k(name) cross join lateral (select key, id from live
where key = k.name and open = 1 order by id desc limit %(most)s) l
union all select l.key, l.id from unnest(%(names)s::text[]) k(name) cross join lateral (select key, id from live
where key = k.name and open = 0 order by id desc limit {latest}) l) l join journal j on j.seq = l.id
-- name: around_and_live
{around} union all {live}
-- name: open_ids
select string_agg(id::text, ',' order by id) from live where key = %s and open > 0
-- name: stamps
select seq, coalesce(expires, 0), coalesce(approved, 0) from journal where seq = any(%s::bigint[])
-- name: open_by_ids
select {action}, {params} from journal j where j.seq = any(%(ids)s::bigint[])

-- Below a tree: live actions, the newest actions of others, and their changes after this session's read; the mark of
-- those is the session's.
-- name: live_below
{living} from (select key, id from live where key >= %(low)s and key < %(high)s
order by open desc, id desc limit 1000) l join journal j on j.seq = l.id
-- name: latest_below
select 'a', m.key, {mark}, {action}, null::bytea from (select * from mark where key >= %(low)s
and key < %(high)s and session <> %(me)s and acted is not null
order by changed desc limit {latest}) m join journal j on j.seq = m.acted
-- name: stale_below
select 's', m.key, o.session, look.at, 0::bigint, 0, null::bytea, null::bigint, {action}, null::bytea
from mark o left join journal w on w.seq = o.acted
join mark m on m.key = o.key and m.session <> o.session and m.acted is not null join journal j on j.seq = m.acted
cross join lateral (select greatest(o.read, case when {w_looked} then w.seq else 0 end) as at) look
where o.key >= %(low)s and o.key < %(high)s and o.session = %(me)s and look.at > 0
and (j.ended = 0 or j.ended > look.at) order by m.changed desc limit {latest}

-- The session's ancestors, and what the sessions that it continues know of its keys.
-- name: parents
with recursive c(name, n) as (select coalesce(%(start)s, (select parent from session where namespace = %(space)s
and name = %(me)s)), 1 union all select s.parent, c.n + 1 from c join session s on s.namespace = %(space)s
and s.name = c.name where s.parent is not null and c.n < {generations})
select name from c where name is not null order by n
-- name: inherited
with recursive c(name, n) as (select coalesce(%(start)s, (select continues from session where namespace = %(space)s
and name = %(me)s)), 1 union all select s.continues, c.n + 1 from c join session s on s.namespace = %(space)s
and s.name = c.name where s.continues is not null and c.n < {generations})
select c.n, k.name, {mark}, {action} from c cross join unnest(%(keys)s::text[]) k(name)
join mark m on m.key = k.name and m.session = c.name left join journal j on j.seq = m.acted order by c.n

-- name: found
select {action}, j.event, j.verdict from journal j where j.seq = %(id)s
-- name: found_by_ids
select {action}, j.event, j.verdict from journal j where j.seq = any(%s::bigint[])
-- name: action_by_id
{answered_action} where j.seq = %s
-- name: bodies
select j.seq, j.body from journal j where j.seq = any(%s) and length(j.body) <= {most_body}
-- name: bodies_of_namespace
{bodies} and j.namespace = %s
-- The actions that a report without an id can mean. An unknown action without a key has no live row, so the session's own
-- entries are searched, through their index.
-- name: unreported
(select {action} from journal j where session = %(me)s and namespace = %(space)s
and seq > %(since)s and ((state = 'unknown' and keys is null) or (ended = 0 and state in ('open', 'done')))
order by seq desc limit {searched})
union select {action} from live l join journal j on j.seq = l.id
where l.open = 0 and j.session = %(me)s and j.namespace = %(space)s and j.state = 'unknown'

-- offset 0: otherwise the planner may scan the journal for the few live actions.
-- name: queues
select l.key, j.session, j.state, j.expires from live l cross join lateral (select namespace, session, state,
expires from journal where seq = l.id offset 0) j where l.open > 0 and j.namespace = %(space)s
and (j.state = 'queued' or (j.state = 'open' and j.session = %(me)s))
-- name: held
select l.key, j.session, j.state, j.expires from live l cross join lateral (select namespace, session, state,
expires from journal where seq = l.id offset 0) j where l.open = 1 and j.namespace = %(space)s
and j.state = 'open' and j.session = any(%(sessions)s::text[])
-- Own actions of the same content and those of others are limited separately, so that many own ones hide no other.
-- name: twins
select t.* from unnest(%(keys)s::text[]) k(name) cross join (values(true), (false)) o(own)
cross join lateral (select p.key, {action} from print p join journal j on j.seq = p.id where p.key = k.name
and p.print = any(%(prints)s::bytea[]) and (j.session = %(me)s) = o.own
and j.state in {acted_states} order by p.id desc limit 8) t

-- ======== The rows that a transaction locks: locks.py, store.py ======================================

-- name: rows
select name from turn where name = any(%s::text[]) order by name for
-- name: take
select count(*) from ({rows} update) t
-- name: share
select count(*) from ({rows} share) t
-- The shared rows are counted first, so they are also locked first.
-- name: share_and_take
with s as materialized ({rows} share), t as materialized ({rows} update)
select (select count(*) from s) + (select count(*) from t)
-- The same, but failing unless there are as many rows as expected: the server then skips all statements sent after it.
-- name: take_all
select 1 / (({take}) = %s)::int
-- name: share_all
select 1 / (({share}) = %s)::int
-- name: share_and_take_all
select 1 / (({share_and_take}) = %s)::int
-- name: make_rows
insert into turn(name) select * from unnest(%s::text[]) on conflict do nothing
-- name: lazy
set local synchronous_commit = off
-- name: committed
select seq from journal where seq = %(seq)s and token = %(token)s

-- ======== A step's change: apply.py ==================================================================

-- name: add_entry
insert into journal(seq, token, event, namespace, session, run, tool, tier, verdict, rule, action, outcome, key, keys,
body, call, state, ended, expires, approved, content, extra)
values(%(seq)s, %(token)s, %(event)s, %(namespace)s, %(session)s, %(run)s, %(tool)s, %(tier)s, %(verdict)s, %(rule)s,
%(action)s, %(outcome)s, %(key)s, %(keys)s, %(body)s, %(call)s, %(state)s, %(ended)s, %(expires)s, %(approved)s,
%(content)s, %(extra)s)
-- name: set_marks
insert into mark(key, session, read, told, kind, note, acted, changed) select m.key, %(session)s, m.read,
m.told, m.kind, m.note, m.acted, coalesce(m.acted, 0) from unnest(%(mark_keys)s::text[], %(reads)s::bigint[],
%(tolds)s::bigint[], %(kinds)s::int[], %(notes)s::bytea[], %(acteds)s::bigint[])
as m(key, read, told, kind, note, acted) on conflict(key, session) do update set read = excluded.read,
told = excluded.told, kind = excluded.kind, note = excluded.note,
acted = coalesce(excluded.acted, mark.acted), changed = greatest(excluded.changed, mark.changed)
-- name: set_live
insert into live(key, open, id) select k, %(open)s::int, %(seq)s::bigint
from unnest(%(names)s::text[]) k on conflict do nothing
-- name: set_prints
insert into print(key, print, id) select k, p, %(seq)s::bigint from unnest(%(print_names)s::text[]) k
cross join unnest(%(prints)s::bytea[]) p on conflict do nothing

-- An action with its marks and, if it has a lease, its live rows: one statement, because most calls write only this.
-- name: add_action
with j as ({add_entry}), m as ({set_marks}) select 1
-- name: add_lease
with j as ({add_entry}), m as ({set_marks}), l as ({set_live}) select 1
-- name: add_repeatable
with j as ({add_entry}), m as ({set_marks}), l as ({set_live}), p as ({set_prints}) select 1

-- name: add_covers
insert into cover(key) select unnest(%s::text[]) on conflict do nothing
-- name: set_fact
insert into meta values(%s, %s) on conflict(name) do update set value = excluded.value
-- name: drop_fact
delete from meta where name = %s
-- name: set_content
update journal set content = %s where seq = %s
-- name: set_session
insert into session(namespace, name, seen, parent, continues) values(%s, %s, %s, %s, %s)
on conflict(namespace, name) do update set seen = greatest(excluded.seen, session.seen),
parent = coalesce(excluded.parent, session.parent), continues = coalesce(excluded.continues, session.continues)

-- name: settle
update journal set state = %(its_state)s, ended = %(its_ended)s, expires = coalesce(%(its_expires)s, expires),
approved = coalesce(%(its_approved)s, approved) where seq = %(its_seq)s
-- name: drop_live
delete from live where key = any(%(its_names)s::text[]) and id = %(its_seq)s
-- name: set_changed
update mark set changed = greatest(changed, %(its_ended)s) where key = any(%(its_names)s::text[])
and session = %(its_session)s and acted is not null
-- Waiters try again when an action ends. Without a waiter no notification is sent, because one makes all commits of the
-- database run one after another.
-- name: wake
select pg_notify(%(channel)s, %(its_notice)s) where %(its_approved)s::bigint is not null
or exists(select 1 from live where open = 2)
-- name: end
with s as ({settle}), l as ({drop_live}), m as ({set_changed}) {wake}
-- A report and its entry: most calls write nothing else after their decision.
-- name: report
with j as ({add_entry}), s as ({settle}), l as ({drop_live}), m as ({set_changed}), w as ({wake}) select * from w
-- The late report of an old action changes its keys at the report: marks that upkeep deleted meanwhile are restored.
-- name: set_late
insert into mark(key, session, read, told, kind, acted, changed) select k, %(session)s, 0, 0, 0,
%(acted)s::bigint, %(ended)s::bigint from unnest(%(keys)s::text[]) k on conflict(key, session) do update set
acted = coalesce(mark.acted, excluded.acted), changed = greatest(mark.changed, excluded.changed)

-- The report of an action that this process opened: applied if nothing has changed. It returns the moment it got.
-- name: report_if_same
with c as materialized (select greatest(coalesce(%(clock)s::bigint, {now}), (select max(seq) from journal) + 1) as now),
n as materialized (select c.now from c join journal a on a.seq = %(its_seq)s::bigint where a.state = %(was)s
and a.ended = 0 and a.approved = 0 and a.expires = %(expires)s
and c.now between %(first)s::bigint and %(latest)s::bigint
and coalesce((select value from meta where name = 'observe'), '0'::bytea) = %(observe)s),
j as (insert into journal(seq, token, event, namespace, session, action, outcome, body) select now, %(token)s::bigint,
%(event)s, %(namespace)s, %(session)s, %(its_seq)s::bigint, %(outcome)s, %(body)s from n),
s as (update journal set state = %(its_state)s, ended = (select now from n), expires = coalesce(%(its_expires)s, expires),
approved = coalesce(%(its_approved)s, approved) where seq = %(its_seq)s and exists(select 1 from n)),
l as ({drop_live} and exists(select 1 from n)),
m as (update mark set changed = greatest(changed, (select now from n)) where key = any(%(its_names)s::text[])
and session = %(its_session)s and acted is not null and exists(select 1 from n)),
w as ({wake})
select now, (select count(*) from w) from n
-- The moment of a report that was applied, which is its entry's seq.
-- name: reported
select e.seq from journal a join journal e on e.seq = a.ended where a.seq = %(its_seq)s and e.token = %(token)s

-- A failed or cancelled action is no session's newest action, and its reads do not count.
-- name: keys
select keys from journal where seq = %s
-- name: life
select state, ended, keys from journal where seq = %s
-- name: undo_read
update mark set read = %(before)s where key = %(key)s and session = %(session)s
and read > %(before)s and read <= %(seq)s
-- name: undo_action
update mark set acted = %s, changed = %s where key = %s and session = %s and acted = %s

-- ======== Actions of other sessions: neighbours.py ==========================================================

-- Without the content, because only the gate compares it.
-- name: bare
{whose}, null::bytea, j.extra, j.approved
-- name: others
not (m.session = any(%(mine)s::text[]))
-- name: on
select k.name, {bare} from unnest(%(names)s::text[]) k(name) cross join lateral (select acted, changed
from mark m where m.key = k.name and m.acted is not null and {others}
order by changed desc limit {nearby}) m join journal j on j.seq = m.acted
union all select k.name, {bare} from unnest(%(names)s::text[]) k(name)
cross join (values(true), (false)) o(lost)
cross join lateral (select l.id from live l join journal m on m.seq = l.id where l.key = k.name
and (l.open = 0) = o.lost and {others} order by l.id desc limit {nearby}) l join journal j on j.seq = l.id
-- name: count_below
select count(*) from (select 1 from mark where key >= %(low)s and key < %(high)s limit {below} + 1) m
-- name: acts_below
select m.key, {bare} from (select key, acted, changed from mark m where key >= %(low)s and key < %(high)s
and acted is not null and {others} order by changed desc limit {shown_below}) m
join journal j on j.seq = m.acted
-- name: live_acts_below
select l.key, {bare} from (select key, id from live where key >= %(low)s and key < %(high)s limit {below}) l
join journal j on j.seq = l.id where not (j.session = any(%(mine)s::text[]))
order by j.seq desc limit {shown_below}
-- The condition that restricts a search to the newest entries.
-- name: within
j.seq > coalesce((select seq from journal order by seq desc limit 1 offset %(within)s), 0)
-- name: late_below
select j.key, {bare} from journal j where {within} and j.key >= %(low)s and j.key < %(high)s
and j.state in {acted_states} and j.event <> 'lock' and j.keys::json->0->>1 <> 'read'
and not (j.session = any(%(mine)s::text[])) order by j.seq desc limit {shown_below}
-- name: seen
select key, max(greatest(read, coalesce(acted, 0))) from mark where key = any(%(names)s::text[])
and session = any(%(mine)s::text[]) group by key
-- name: used_covers
select key from cover where key = any(%(names)s::text[])
-- name: touched
select {bare}, j.verdict from journal j where {within} and j.session = any(%(mine)s::text[])
and j.namespace = %(space)s and j.keys is not null order by j.seq desc limit %(limit)s
-- offset 0: otherwise the planner may walk back through the journal until it has found all of them.
-- name: underway
select {bare}, j.verdict from (select distinct id from (select id from live limit {most_live}) i) l
cross join lateral (select * from journal where seq = l.id offset 0) j
where j.namespace = %(space)s and (j.session = any(%(mine)s::text[])
or (j.tier >= %(floor)s and j.state in ('open', 'queued'))) order by j.seq desc limit %(limit)s

-- ======== Reading: store.py ==========================================================================

-- Conditions are added only if they are needed, because a statement is planned once and must use the index.
-- name: found_on_keys
and p.key = any(%(keys)s::text[])
-- name: up_to_last
and j.seq <= %(last)s

-- name: live_actions
select l.key, {action}, j.verdict, j.body from live l join journal j on j.seq = l.id
where j.state = any(%(states)s::text[]) {{}} order by l.id, l.key
-- name: recent
select {action} from journal j where {within} and j.state in ('open', 'done', 'failed', 'cancelled', 'unknown')
and j.namespace = %(namespace)s and j.tier >= %(floor)s and not (j.session = any(%(besides)s::text[])) {{}}
order by j.seq desc limit %(limit)s
-- With the running transactions: any of them may still add an entry before the last of these.
-- name: entries_now
select {entry}, array(select (x::text::numeric %% 4294967296)::bigint from pg_snapshot_xip(s) x)
from pg_current_snapshot() s, {from_entry} where j.seq > %(after)s {{}}
-- name: entries_by_ids
{entries} where j.seq = any(%s::bigint[]) order by j.seq
-- name: under_way
select t.transactionid::text::bigint from pg_locks r join pg_locks t
on t.virtualtransaction = r.virtualtransaction and t.pid = r.pid where r.relation = 'turn'::regclass
and r.database = (select oid from pg_database where datname = current_database())
and t.locktype = 'transactionid' and t.mode = 'ExclusiveLock' and t.granted

-- Candidates for farewells: records.is_farewell decides which are.
-- name: farewells
{entries} where {within} and j.event = 'host' and strpos(j.body, '"summary":') > 0 and j.namespace = %(namespace)s
order by j.seq desc
-- name: kin
select parent, continues from session where namespace = %s and name = %s
-- name: moments
select {now}, max(seq) from journal
-- name: fact
select value from meta where name = %s
-- name: facts_between
select name, value from meta where name >= %s and name < %s
-- name: put_fact
{set_fact} returning 1
-- name: add_fact
insert into meta values(%s, %s) on conflict(name) do nothing returning 1
-- name: drop_facts
delete from meta where name = any(%s::text[]) returning 1
-- name: kept
select (select value from meta where name = '{identity}'), (select max(seq) from journal),
(select %(entry)s::bigint where not exists(select 1 from journal where seq = %(entry)s::bigint)),
(select value from meta where name = '{left}'), (select value from meta where name = %(accepted)s)
-- name: journal_size
(select sum(pg_total_relation_size(relid)) from pg_partition_tree('journal'))::bigint
-- name: other_sizes
pg_total_relation_size('mark') + pg_total_relation_size('live') + pg_total_relation_size('print')
+ pg_total_relation_size('cover') + pg_total_relation_size('session') + pg_total_relation_size('meta')
+ pg_total_relation_size('turn')
-- name: sizes
select {journal_size}, (select sum(n_live_tup)::bigint from pg_stat_user_tables where relid in
(select relid from pg_partition_tree('journal'))), (select avg(pg_column_size(j.*)) from
(select * from journal order by seq desc limit 500) j), {other_sizes}
-- name: health
select current_setting('server_version'), (select version from schema_version),
(select count(*) from journal), (select max(seq) from journal), (select count(distinct id) from live),
{journal_size} + {other_sizes}, current_setting('fsync'), current_setting('synchronous_commit')

-- ======== Upkeep: store.py, partitions.py =================================================================

-- The moment of an action as evidence: its report's, or without one the moment when it can no longer be running.
-- name: dated
greatest(j.seq, coalesce(nullif(j.ended, 0), j.expires, 0))
-- A mark m with its session s and the session's newest action j there.
-- name: and_known
left join journal j on j.seq = m.acted left join session s on s.name = m.session and s.namespace =
case when position(chr(31) in m.key) = 0 then %(default)s else split_part(m.key, chr(31), 1) end
-- name: changed
greatest(m.changed, {dated})
-- The moment of the session's last call, as far as its mark depends on it.
-- name: last
greatest(m.read, s.seen, {changed})

-- Whether an entry may leave, as far as its row says; the rest depends on the marks on its keys.
-- name: says
select j.seq, case when j.call is not null or j.state in {live_states}
or a.call is not null or a.state in {live_states} then {stays} when j.state is null then {leaves}
when {dated} < %(horizon)s then {asks}
when j.tier < 2 and json_array_length(coalesce(j.keys, '[]')::json) < 2 then {recent_asks} else {stays} end,
j.session, j.namespace, j.keys, j.state, j.ended
-- name: and_opener
left join journal a on a.seq = j.action and a.seq <> j.seq order by j.seq
-- name: says_next
{says} from (select * from journal where seq <= %(until)s and seq < (select max(seq) from journal)
and seq > %(after)s order by seq limit {at_once}) j {and_opener}
-- name: says_only
{says} from (select * from journal where seq <= %(until)s and seq < (select max(seq) from journal)
and seq = any(%(only)s::bigint[])) j {and_opener}
-- name: newest_actions
select m.acted, m.key, m.session, {changed}, {looked} and {last} >= %(before)s
from unnest(%(keys)s::text[], %(sessions)s::text[], %(seqs)s::bigint[], %(recent)s::int[])
o(key, session, seq, recent) cross join lateral (select * from mark where key = o.key and session = o.session
and acted = o.seq and (o.recent = 1 or exists (select 1 from mark other where other.key = o.key
and other.session <> o.session)) offset 0) m {and_known}
-- The oldest read of each key by an active session, and the oldest by another active session.
-- name: oldest_reads
select k.key, l.session, l.look from unnest(%(keys)s::text[]) k(key) cross join lateral (select m.session,
least(nullif(m.read, 0), case when {looked} then j.seq end) as look from mark m {and_known}
where m.key = k.key and {last} >= %(before)s order by look limit 2) l where l.look is not null
-- name: newest_changes
select k.key, l.session, l.change from unnest(%(keys)s::text[]) k(key) cross join lateral (select m.session,
case when j.state in {live_states} then {forever} else {changed} end as change from mark m cross join lateral
(select * from journal where seq = m.acted offset 0) j where m.key = k.key order by change desc limit 2) l
-- Entries whose actions were reported meanwhile stay.
-- name: drop_entries
delete from journal j using unnest(%s::bigint[], %s::text[], %s::bigint[]) o(seq, state, ended)
where j.seq = o.seq and j.state is not distinct from o.state and j.ended is not distinct from o.ended
and j.call is null returning 1

-- A round of deleting continues from a position; each row says whether it may be deleted.
-- name: calls
select seq, call is not null from journal where seq > %s and seq < %s order by seq limit %s
-- name: forget_calls
update journal set call = null where seq = any(%s::bigint[]) returning 1
-- name: prints
select p.key, p.print, p.id, j.state is null or ({dated} < %(horizon)s and j.state not in {live_states}) from
(select * from print where (key, print, id) > (%(key)s, %(print)s::bytea, %(id)s)
order by key, print, id limit %(budget)s) p left join journal j on j.seq = p.id order by p.key, p.print, p.id
-- name: contents
select seq, content from journal where seq = any(%s::bigint[])
-- name: forget_prints
delete from print p using unnest(%s::text[], %s::bytea[], %s::bigint[]) as o(key, print, id)
where (p.key, p.print, p.id) = (o.key, o.print, o.id) returning 1
-- name: next_marks
select m.key, m.session, m.read, m.told, m.changed, {changed}, {last} < %(before)s and not exists
(select 1 from live l join journal a on a.seq = l.id where l.key = m.key and a.session = m.session) from
(select * from mark where (key, session) > (%(key)s, %(session)s) order by key, session limit %(budget)s) m
{and_known} order by m.key, m.session
-- name: forget_marks
delete from mark m using unnest(%s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[])
as o(key, session, read, told, changed) where m.key = o.key and m.session = o.session and m.read = o.read
and m.told = o.told and m.changed = o.changed returning 1
-- name: forget_sessions
delete from session where seen < %s returning 1
-- name: next_turns
select name from turn where name > %s and name > chr(32) order by name limit %s
-- name: forget_turns
delete from turn where name in (select t.name from turn t where t.name = any(%s::text[])
and not exists (select 1 from mark where key = t.name)
and not exists (select 1 from live where key = t.name)
and not exists (select 1 from cover where key = t.name)
order by t.name for update of t skip locked) returning 1
-- name: parts
select c.relname::text, pg_get_expr(c.relpartbound, c.oid) from pg_inherits i
join pg_class c on c.oid = i.inhrelid where i.inhparent = 'journal'::regclass
-- name: span
select min(seq), max(seq) from journal
-- name: any_between
select 1 from journal where seq >= %s and seq < %s limit 1

-- ======== The version of the tables: schema.py, version.py; their partitions: partitions.py ====================

-- name: make_version
create table if not exists schema_version(one int primary key check (one = 1), version int not null,
oldest int not null)
-- name: add_version
insert into schema_version values(1, 0, 0) on conflict do nothing
-- name: version
select version, oldest from schema_version
-- name: lock_version
{version} for update
-- name: claim_version
{version} for update nowait
-- name: set_version
update schema_version set version = %s, oldest = %s
-- name: set_patience
select set_config('lock_timeout', %s, true)
-- name: lock_journal
lock table journal in access exclusive mode

-- ======== Export and import: export.py ================================================================

-- Pages are read through an index, whatever the statistics of tables that are being filled say.
-- name: by_keys
select set_config(name, 'off', false) from unnest(array['enable_seqscan', 'enable_hashjoin', 'enable_mergejoin',
'jit']) name
-- name: sessions
select namespace, name, seen, parent, continues from session where (namespace, name) > (%s, %s)
order by namespace, name limit %s
-- For all reads of a page at once, in one round trip.
-- name: reads
select o.session, o.moment, j.seq, j.keys from unnest(%s::text[], %s::bigint[]) as o(session, moment)
join journal j on j.seq >= o.moment and j.seq < o.moment + {next} and j.session = o.session
and j.state in {acted_states} and j.ended = 0 and j.keys is not null order by j.seq
-- name: put_session
insert into session(namespace, name, seen, parent, continues) values(%s, %s, %s, %s, %s)
on conflict(namespace, name) do update set seen = excluded.seen, parent = excluded.parent,
continues = excluded.continues
-- name: drop_session
delete from session where namespace = %s and name = %s
