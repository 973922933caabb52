-- What the SQL stores share as records that can be carried into another store, and back: see export_sql.py.
-- ? is a parameter; {among} says "is one of these ids", which are one parameter.

-- name: newest
select coalesce(max(seq), 0) from journal
-- name: any_entry
select 1 from journal limit 1
-- name: any_mark
select 1 from mark limit 1
-- name: any_session
select 1 from session limit 1

-- Of several rows with one identity the newest is the one that counts.
-- name: written
select {entry}, j.state, j.ended, j.expires, j.approved, j.content, j.extra,
case when j.call is null or exists(select 1 from journal n where n.call = j.call and n.seq > j.seq)
then null else j.call end,
(select p.value from meta p where j.state = 'asked' and p.name = 'params:' || j.seq)
from {from_entry} where j.seq > ? order by j.seq limit ?
-- name: marks
select key, session, read, told, kind, note, acted from mark
where (key, session) > (?, ?) and {of_sessions} order by key, session limit ?
-- name: prints
select p.key, p.print, p.id, j.state in {acted_states} from print p left join journal j on j.seq = p.id
where (p.key, p.print, p.id) > (?, ?, ?) order by p.key, p.print, p.id limit ?
-- name: facts
select * from meta where name = 'observe'
-- name: lives
select seq, state, ended, tier, keys from journal where seq {among}
-- name: openers
select seq, tool, tier, run, keys from journal where seq {among}
-- name: namespaces
select seq, namespace from journal where seq {among}
-- name: fact
select value from meta where name = ?

-- name: put_fact
insert into meta values(?, ?) on conflict(name) do update set value = excluded.value
-- name: put_cover
insert into cover(key) values(?) on conflict do nothing
-- name: put_print
insert into print(key, print, id) values(?, ?, ?) on conflict do nothing
-- name: put_live
insert into live(key, open, id) values(?, ?, ?) on conflict do nothing
-- name: put_keys
update journal set keys = ? where seq = ?
-- name: put_mark
insert into mark(key, session, read, told, kind, note, acted, changed) values(?, ?, ?, ?, ?, ?, ?, ?)
on conflict(key, session) do update set read = excluded.read, told = excluded.told, kind = excluded.kind,
note = excluded.note, acted = excluded.acted, changed = excluded.changed
-- name: put_entry
insert into journal(seq, event, namespace, session, run, tool, tier, verdict, rule, action, outcome, key, keys, body,
call, state, ended, expires, approved, content, extra{more_columns})
values(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?{more_values})
on conflict(seq) do update set event = excluded.event, namespace = excluded.namespace, session = excluded.session,
run = excluded.run, tool = excluded.tool, tier = excluded.tier, verdict = excluded.verdict, rule = excluded.rule,
action = excluded.action, outcome = excluded.outcome, key = excluded.key, keys = excluded.keys, body = excluded.body,
call = excluded.call, state = excluded.state, ended = excluded.ended, expires = excluded.expires,
approved = excluded.approved, content = excluded.content, extra = excluded.extra

-- name: drop_live
delete from live where id {among}
-- name: drop_fact
delete from meta where name = ?
-- name: drop_entry
delete from journal where seq = ?
-- name: drop_mark
delete from mark where key = ? and session = ?
-- name: drop_print
delete from print where key = ? and print = ? and id = ?
