-- Version 1 of the tables. Names are compared byte by byte (collate "C"): a tree is a range of keys.

-- One row for each entry. Only the columns on the state of the action that it opened change (state, ended, expires,
-- approved, call). seq is the entry's moment in microseconds. token identifies the transaction that wrote it.
create table journal(
    seq bigint primary key,
    token bigint not null,
    event text not null,
    namespace text not null,
    session text collate "C" not null,
    run text,
    tool text,
    tier int,
    verdict text,
    rule text,
    action bigint,
    outcome text,
    key text collate "C",
    keys text,
    body text,
    call bytea,
    state text,
    ended bigint,
    expires bigint,
    approved bigint,
    content bytea,
    extra bytea
) with (fillfactor = 90);
-- No index covers a column that a report changes, so that the update stays on the row's page.
create index journal_call on journal(call) where call is not null;
create index journal_session on journal(session, seq);

-- What each session knows of a key, and its newest action on it. changed: when that action last changed the key.
create table mark(
    key text collate "C" not null,
    session text collate "C" not null,
    read bigint not null,
    told bigint not null,
    kind int not null,
    note bytea,
    acted bigint,
    changed bigint not null,
    primary key(key, session)
) with (fillfactor = 80);
create index mark_changed on mark(key, changed) where acted is not null;

-- Live actions, one row for each key: open leases and questions (open = 1), waiters (2), unknown outcomes (0).
create table live(
    key text collate "C" not null,
    open int not null,
    id bigint not null,
    primary key(key, open, id)
);
create index live_waiting on live(id) where open = 2;

-- Fingerprints of actions that take effect again when repeated: of their content, their origin and their stance.
create table print(
    key text collate "C" not null,
    print bytea not null,
    id bigint not null,
    primary key(key, print, id)
);

-- Keys that cover others: trees (ending in /) and the part of a facet key up to and including its bar.
create table cover(key text collate "C" primary key);

create table session(
    namespace text collate "C" not null,
    name text collate "C" not null,
    seen bigint not null,
    parent text,
    continues text,
    primary key(namespace, name)
);

-- observe: end of observing. params:<id>: the params of an open question.
create table meta(name text collate "C" primary key, value bytea);

-- The rows that transactions lock: see locks.py. They hold no data.
create table turn(name text collate "C" primary key);
