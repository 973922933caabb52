-- Every statement of the SQLite store, except the pragmas and transactions of connection.py.
-- schema.sql describes the tables; statements.py fills in the numbers.

-- ======== A step's view: view.py =====================================================================

-- One statement asks for the earlier decision on this call and for everything that is nearly always empty. It is built
-- from these parts, because the number of keys and digests varies.
-- name: earlier
select seq from journal where call = ?1 order by seq desc limit 1
-- name: any_cover
exists(select 1 from cover where key in ({{covers}}))
-- name: any_live
exists(select 1 from live where key in ({{keys}}))
-- name: any_print
exists(select 1 from print where key in ({{keys}}) and print in ({{prints}}))
-- name: any_mark
exists(select 1 from mark where key in ({{keys}}))
-- name: newest
select max(seq) from journal
-- name: covering
select key from cover where key in (select value from json_each(?))

-- The marks on a key, with each session's newest action there. The session's own action is not looked up: if it is
-- alone on its key, only the action's id matters. The closed variants leave out open actions, which a crowd holds.
-- name: theirs
select {mark}, {action}, m.changed from mark m left join journal j on j.seq = m.acted and m.session <> ?2
-- name: closed
and not exists (select 1 from live l where l.key = m.key and l.open = 1 and l.id = m.acted)
-- name: marks
{theirs} where m.key = ?1 limit {most_marks}
-- name: closed_marks
{theirs} {closed} where m.key = ?1 limit {most_marks}
-- The marks on a crowded key. Sessions that only read come last, so a result below the limit holds all that changed it.
-- name: crowd_marks
{theirs} where m.key = ?1 and m.crowd = 1 order by m.changed desc limit ?3
-- name: closed_crowd_marks
{theirs} {closed} where m.key = ?1 and m.crowd = 1 order by m.changed desc limit ?3
-- name: make_crowd
update mark set crowd = 1 where key = ? and crowd = 0
-- name: name_crowd
insert or ignore into mark values(?, '', 0, 0, 0, null, null, 0, 0)
-- name: is_crowd
select 1 from mark where key = ? and session = ''
-- name: is_marked
select 1 from mark where key = ? limit 1
-- name: own_mark
select {mark}, {action} from mark m left join journal j on j.seq = m.acted where m.key = ? and m.session = ?

-- The open actions on a key, and the newest of those with an unknown outcome.
-- name: live
select {action} from live l join journal j on j.seq = l.id where l.key = ?1 and l.open = 1
union all select * from (select {action} from live l join journal j on j.seq = l.id
where l.key = ?1 and l.open = 0 order by l.id desc limit {latest})
-- name: live_ids
select (select group_concat(id) from live where key = ?1 and open = 1), (select group_concat(id) from
(select id from live where key = ?1 and open = 0 order by id desc limit {latest}))
-- name: stamps
select seq, coalesce(expires, 0), coalesce(approved, 0) from json_each(?) i cross join journal on seq = i.value
-- name: by_ids
select {action} from json_each(?) i cross join journal j on j.seq = i.value
-- name: by_id
select {action} from journal j where j.seq = ?

-- Below a tree: live actions, the newest actions of other sessions, and their changes after this session's read.
-- name: live_below
select l.key, {action} from live l join journal j on j.seq = l.id where l.key >= ? and l.key < ?
order by l.open desc, l.id desc limit 1000
-- name: latest_below
select m.key, {action} from mark m join journal j on j.seq = m.acted
where m.key >= ? and m.key < ? and m.session <> ? and m.changed > 0 order by m.changed desc limit {latest}
-- name: stale_below
select m.key, {action}, max(o.read, case when {w_looked} then w.seq else 0 end) looked
from mark o left join journal w on w.seq = o.acted
join mark m on m.key = o.key and m.session <> o.session and m.changed > 0 join journal j on j.seq = m.acted
where o.key >= ? and o.key < ? and o.session = ? and looked > 0 and (j.ended = 0 or j.ended > looked)
order by m.changed desc limit {latest}

-- The action that a report is about, whether it was overtaken, and the newest entry.
-- name: found
select {action}, j.event, j.verdict, ({newest}),
exists(select 1 from mark m where m.key = j.key and m.crowd = 1 and m.changed > j.seq and m.session <> j.session)
or exists(select 1 from (select * from mark where key = j.key limit {most_marks}) m
where m.changed > j.seq and m.session <> j.session) from journal j where j.seq = ?
-- name: is_changed
select exists(select 1 from mark where key = ?1 and crowd = 1 and changed > ?2 and session <> ?3)
or exists(select 1 from (select * from mark where key = ?1 limit {most_marks}) where changed > ?2 and session <> ?3)
-- name: body
select body from journal where seq = ?
-- name: bodies
select j.seq, j.body from json_each(?1) i cross join journal j on j.seq = i.value
where length(j.body) <= {most_body}
-- name: bodies_of_namespace
{bodies} and j.namespace = ?2

-- The actions that a report without an id can mean. Hosts with call ids report by id. For the other hosts, a bounded
-- search covers the rest, and actions without a key that became unknown, which are not among the live ones.
-- name: unreported
select {action} from journal j indexed by journal_unreported where session = ? and call is null and ended = 0
and seq > ? and namespace = ? and state in ('open', 'done')
-- name: not_searched
select seq from journal order by seq desc limit 1 offset {searched}
-- name: unreported_calls
select {action} from journal j where seq > ? and session = ? and namespace = ? and ((call is not null and ended = 0
and state in ('open', 'done')) or (keys is null and state = 'unknown')) order by seq desc limit 1000
-- name: unknown
select {action} from journal j where seq in (select id from live where open = 0) and session = ? and namespace = ?
and state = 'unknown'

-- name: queues
select l.key, j.session, j.state, j.expires from live l join journal j on j.seq = l.id
where l.open = 1 and j.namespace = ? and (j.state = 'queued' or (j.state = 'open' and j.session = ?))
-- name: held
select l.key, j.session, j.state, j.expires from live l cross join journal j on j.seq = l.id
where l.open = 1 and j.namespace = ? and j.state = 'open' and j.session in (select value from json_each(?))

-- Actions with the same content: other sessions' and this session's apart, so that many of its own hide no other.
-- name: twins
select p.key, {action} from print p join journal j on j.seq = p.id where p.key = ?1 and p.print in ({{prints}})
and (j.session = ?2) = ?3 and j.state in {acted_states} order by p.id desc limit 8

-- name: session
select seen, parent, continues from session where name = ?
-- name: fact
select value from meta where name = ?
-- name: covers
select key from cover limit {most_covers}

-- ======== A step's change: apply.py ==================================================================

-- name: add_entry
insert into journal(seq, event, namespace, session, run, tool, tier, verdict, rule, outcome, key, keys, body, content)
values(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
-- An entry about an action, with the action's tool, tier and keys.
-- name: add_note
insert into journal(seq, event, namespace, session, action, outcome, body) values(?, ?, ?, ?, ?, ?, ?)
-- Columns that few actions fill have a statement of their own, because sqlite3 is slow to bind null.
-- name: add_action
insert into journal(seq, action, event, namespace, session, tool, tier, verdict, rule, key, keys, body, call,
state, expires, content, ended, approved) values(?1, ?1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0)
-- name: add_action_with_more
insert into journal(seq, action, event, namespace, session, tool, tier, verdict, rule, key, keys, body, call,
state, expires, content, ended, approved, run, extra)
values(?1, ?1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, ?, ?)
-- One statement for all keys of an action.
-- name: add_live
insert or ignore into live values {{}}
-- name: add_prints
insert or ignore into print values {{}}
-- name: add_cover
insert or ignore into cover values(?)
-- name: set_fact
insert or replace into meta values(?, ?)
-- name: drop_fact
delete from meta where name = ?
-- name: set_content
update journal set content = ? where seq = ?
-- name: set_session
insert into session(name, seen, parent, continues) values(?, ?, ?, ?)
on conflict(name) do update set seen = excluded.seen, parent = coalesce(excluded.parent, parent),
continues = coalesce(excluded.continues, continues)

-- One statement for all keys of an action.
-- name: set_marks
insert into mark(key, session, read, told, kind, note, acted, changed, crowd) values {{}}
on conflict(key, session) do update set read = excluded.read, told = excluded.told, kind = excluded.kind,
note = excluded.note, acted = coalesce(excluded.acted, acted), changed = max(excluded.changed, changed),
crowd = max(excluded.crowd, crowd)
-- For a session that is alone on a key and only acts there, as most calls do.
-- name: set_acted
update mark set acted = ?, changed = max(changed, ?) where key = ? and session = ?
-- name: set_changed
update mark set changed = max(changed, ?) where key = ? and session = ? and acted is not null
-- name: set_late
insert into mark(key, session, read, told, kind, acted, changed, crowd) values(?, ?, 0, 0, 0, ?, ?, ?)
on conflict(key, session) do update set acted = coalesce(acted, excluded.acted), changed = max(changed, excluded.changed)

-- name: set_expires
update journal set expires = ? where seq = ?
-- name: settle
update journal set state = ?, ended = ? where seq = ?
-- name: settle_with_more
update journal set state = ?, ended = ?, expires = coalesce(?, expires), approved = coalesce(?, approved) where seq = ?
-- name: drop_live
delete from live where open = ? and id = ? and key in ({{}})

-- A failed or cancelled action is not its session's newest, and a failed read leaves no read mark.
-- name: keys
select keys from journal where seq = ?
-- name: life
select state, ended, keys from journal where seq = ?
-- name: take_back_look
update mark set read = ? where key = ? and session = ? and read > ? and read <= ?
-- name: take_back_act
update mark set acted = ?, changed = ? where key = ? and session = ? and acted = ?

-- ======== Other sessions' actions, for a brief: neighbours.py ============================================

-- An action without its content, which only the gate compares. Parameters have names, because mine is used often.
-- name: bare
{whose}, null, j.extra, j.approved
-- name: mine
(select value from json_each(:mine))
-- The keys that have a live action or another session's mark. A crowded key also has a mark of session ''.
-- name: which
select k.value, exists(select 1 from live where key = k.value),
exists(select 1 from mark where key = k.value and session not in {mine}),
exists(select 1 from mark where key = k.value and session = '') from json_each(:names) k
-- The few actions of a brief are chosen by the marks alone, because each read of the journal may go to the disk.
-- name: acts
select {bare} from (select acted, changed from mark where key = :key and acted is not null
and session not in {mine} order by changed desc limit {nearby}) m cross join journal j on j.seq = m.acted
-- name: crowd_acts
select {bare} from (select acted, changed from mark where key = :key and acted is not null and crowd = 1
and session not in {mine} order by changed desc limit {nearby}) m cross join journal j on j.seq = m.acted
-- name: live_on
select {bare} from live l cross join journal j on j.seq = l.id where l.key = :key and l.open = :open
and j.session not in {mine} order by l.id desc limit {nearby}
-- name: count_below
select count(*) from (select 1 from mark where key >= :low and key < :high limit {below} + 1)
-- name: acts_below
select m.key, {bare} from (select key, acted, changed from mark where key >= :low and key < :high
and acted is not null and session not in {mine} order by changed desc limit {shown_below}) m
join journal j on j.seq = m.acted
-- name: live_acts_below
select l.key, {bare} from (select key, id from live where key >= :low and key < :high limit {below}) l
join journal j on j.seq = l.id where j.session not in {mine} order by j.seq desc limit {shown_below}
-- The condition that limits a search to the newest entries.
-- name: within
j.seq > ifnull((select seq from journal order by seq desc limit 1 offset :within), 0)
-- name: late_below
select j.key, {bare} from journal j where {within} and j.key >= :low and j.key < :high
and j.state in {acted_states} and j.event <> 'lock' and json_extract(j.keys, '$[0][1]') <> 'read'
and j.session not in {mine} order by j.seq desc limit {shown_below}
-- name: seen
select m.key, max(max(m.read, coalesce(m.acted, 0))) from json_each(:names) k
join mark m on m.key = k.value and m.session in {mine} group by m.key
-- name: used_covers
select c.key from json_each(:names) k join cover c on c.key = k.value
-- name: touched
select {bare}, j.verdict from journal j where {within} and j.session in {mine}
and j.namespace = :space and j.keys is not null order by j.seq desc limit :limit
-- name: underway
select {bare}, j.verdict from (select distinct id from (select id from live limit {most_live})) l
join journal j on j.seq = l.id where j.namespace = :space and (j.session in {mine}
or (j.tier >= :floor and j.state in ('open', 'queued'))) order by j.seq desc limit :limit

-- ======== Reading: store.py ==========================================================================

-- name: action_by_id
{answered_action} where j.seq = ?
-- name: found_on_keys
and p.key in (select value from json_each(:keys))
-- name: live_actions
select l.key, {action}, j.verdict, j.body from live l join journal j on j.seq = l.id
where j.state in (select value from json_each(:states)) {{}}
-- name: recent
select {action} from journal j where {within} and j.state in ('open', 'done', 'failed', 'cancelled', 'unknown')
and j.namespace = :namespace and (:floor = 0 or j.tier >= :floor)
and j.session not in (select value from json_each(:besides)) {{}} order by j.seq desc limit :limit
-- name: entries_by_ids
{entries} where j.seq in (select value from json_each(?)) order by j.seq
-- Entries that may be farewells; records.is_farewell decides.
-- name: farewells
{entries} where {within} and j.event = 'host' and instr(j.body, '"summary":') > 0 and j.namespace = :namespace
order by j.seq desc
-- name: kin
select parent, continues from session where name = ?
-- name: count_gates
select count(*) from meta where name >= '{gate}:' and name < '{gate};' and value > ?
-- name: drop_gates
delete from meta where name >= '{gate}:' and name < '{gate};' and value < ?
-- name: pages
select page_count, freelist_count, page_size from pragma_page_count, pragma_freelist_count, pragma_page_size
-- name: count_entries
select count(*), max(seq) from journal
-- name: count_live
select count(distinct id) from live
-- Reads from every table.
-- name: prove
select (select 1 from journal limit 1), (select 1 from mark limit 1), (select 1 from live limit 1),
(select 1 from print limit 1), (select 1 from cover limit 1), (select 1 from session limit 1), ({newest})

-- ======== Which store it is, and its clock: connection.py, clock.py ==================================

-- name: kept
select (select value from meta where name = '{identity}'), (select value from meta where name = '{left}'),
(select value from meta where name = ?2), (select ?1 where not exists(select 1 from journal where seq = ?1)), ({newest})
-- name: add_fact
insert or ignore into meta values(?, ?)
-- name: clock
select (select value from meta where name = 'clock'), exists(select 1 from live where open = 1), ({newest})

-- ======== Upkeep: store.py ===========================================================================

-- The time that an action counts from: its report's or, without a report, when it can no longer be running.
-- name: dated
max(j.seq, coalesce(nullif(j.ended, 0), j.expires, 0))
-- A mark's session as the session table names it: there the namespace precedes the session, in a mark the key.
-- name: session_of_mark
case when instr(m.key, char(31)) and instr(m.key, '{default}' || char(31)) <> 1
then substr(m.key, 1, instr(m.key, char(31))) || m.session
when instr(m.session, char(31)) then '{default}' || char(31) || m.session else m.session end
-- A mark m with its session s and the session's newest action j there.
-- name: and_known
left join session s on s.name = {session_of_mark} left join journal j on j.seq = m.acted
-- name: changed
max(m.changed, coalesce({dated}, 0))
-- The time of the session's last call, as far as it decides how long its mark is kept.
-- name: last
max(m.read, coalesce(s.seen, 0), {changed})

-- What an entry's row shows about whether it may be deleted; the marks on its keys decide the rest.
-- name: says
select j.seq, case when j.call is not null or j.state in {live_states}
or a.call is not null or a.state in {live_states} then {stays} when j.state is null then {leaves}
when {dated} < ?1 then {asks} when j.tier < 2 and json_array_length(coalesce(j.keys, '[]')) < 2 then {recent_asks}
else {stays} end, j.session, j.namespace, j.keys
from {from_entry} where j.seq <= ?2 and j.seq < ({newest})
-- name: says_next
{says} and j.seq > ?3 order by j.seq limit {at_once}
-- name: says_only
{says} and j.seq in (select value from json_each(?3)) order by j.seq
-- name: newest_act
select {changed}, {looked} and {last} >= ?4 from mark m {and_known}
where m.key = ?1 and m.session = ?2 and m.acted = ?3
and (?5 or exists (select 1 from mark o where o.key = ?1 and o.session <> ?2))
-- name: oldest_looks
select m.session, min(case when m.read > 0 then m.read else {forever} end,
case when {looked} then j.seq else {forever} end) as look from mark m {and_known}
where m.key = ?1 and {last} >= ?2 and look < {forever} order by look limit 2
-- name: newest_changes
select m.session, case when j.state in {live_states} then {forever} else {changed} end as change from mark m
join journal j on j.seq = m.acted where m.key = ? order by change desc limit 2
-- name: drop_entries
delete from journal where seq in (select value from json_each(?))
-- name: set_left
insert into meta values(?, ?) on conflict(name) do update set value = excluded.value where value < excluded.value

-- name: calls
select seq, call is not null from journal where seq > ? and seq < ? order by seq limit ?
-- name: forget_call
update journal set call = null where seq = ?
-- Digests whose entry was deleted are old too.
-- name: prints
select key, print, id, case when id >= ?1 then 0 else coalesce(
(select {dated} < ?1 and j.state not in {live_states} from journal j where j.seq = id), 1) end
from print where (key, print, id) > (?2, ?3, ?4) order by key, print, id limit ?5
-- name: contents
select seq, content from journal where seq in (select value from json_each(?))
-- name: forget_print
delete from print where key = ?1 and print = ?2 and id = ?3
and not exists (select 1 from journal j where j.seq = ?3 and ({dated} >= ?4 or j.state in {live_states}))
-- name: next_marks
select key, session, max(read, changed, coalesce(acted, 0)) < ?1 from mark
where (key, session) > (?2, ?3) order by key, session limit ?4
-- name: old_mark
select m.key, m.session, {changed} from mark m {and_known} where m.key = ?1 and m.session = ?2 and {last} < ?3
-- name: forget_mark
delete from mark where key = ?1 and session = ?2
and exists (select 1 from mark m {and_known} where m.key = ?1 and m.session = ?2 and {last} < ?4)
and not exists (select 1 from mark m {and_known} where m.key = ?1 and m.session <> ?2 and {last} >= ?4
and ((m.read > 0 and m.read < ?3) or (j.seq < ?3 and {looked})))
and not exists (select 1 from live l join journal j on j.seq = l.id where l.key = ?1 and j.session = ?2)
-- name: any_old_session
select 1 from session where seen < ? limit 1
-- name: forget_sessions
delete from session where seen < ?

-- ======== Export and copy: export.py ==================================================================

-- One session may have no name: a person who gave none.
-- name: sessions
select name, seen, parent, continues from session where name >= ? and name is not ? order by name limit ?
-- name: reads
select seq, keys from journal where seq >= ? and seq < ? and session = ? and state in {acted_states}
and ended = 0 and keys is not null order by seq
-- name: put_session
insert or replace into session values(?, ?, ?, ?)
-- name: drop_session
delete from session where name = ?
