-- The columns that the SQL stores read alike: see rows.py, which knows them by their place. j is an entry of the
-- journal, m a mark, a the entry of the action that j is about.

-- name: whose
j.seq, j.namespace, j.session, j.run, j.tool, j.tier, j.state, j.ended, j.expires, j.rule, j.keys
-- name: action
{whose}, j.content, j.extra, j.approved
-- name: mark
m.session, m.read, m.told, m.kind, m.note, m.acted

-- A report's entry names its action; tool, tier and keys are the action's.
-- name: entry
j.seq, j.event, j.namespace, j.session, coalesce(j.run, a.run), coalesce(j.tool, a.tool),
coalesce(j.tier, a.tier), j.verdict, j.rule, j.action, j.outcome, coalesce(j.keys, a.keys), j.body
-- name: from_entry
journal j left join journal a on a.seq = j.action and a.seq <> j.seq
-- name: entries
select {entry} from {from_entry}
-- name: answered_action
select {action}, j.event, j.verdict, j.body from journal j

-- What is live, or is evidence.
-- name: live_states
('open', 'queued', 'asked', 'unknown')
-- name: acted_states
('open', 'done', 'unknown')
-- Whether a session's own write w counts as a look: a finished one does, unless its report was late.
-- name: w_looked
w.state = 'done' and w.ended > 0 and w.ended <= w.expires
-- name: looked
j.state = 'done' and j.ended > 0 and j.ended <= j.expires

-- What both stores read outside of decisions: see sql_reads.py. PostgreSQL's driver writes :name as %(name)s.
-- name: in_namespace
and j.namespace = :namespace
-- name: of_session
and j.session = :session
-- name: on_key
and coalesce(j.key, a.key) = :key
-- name: on_first_key
and j.key = :key
-- name: live_on_key
and l.key = :key
-- name: oldest_first
order by j.seq limit :limit
-- name: newest_first
order by j.seq desc limit :limit
-- name: entries_where
{entries} where j.seq > :after {{}}
-- name: commitments
select {action} from journal j where j.seq in (select p.id from print p where p.print = :print {{}}) order by j.seq
