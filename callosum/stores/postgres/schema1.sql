-- Version 1 of the tables. Names are compared byte by byte (collate "C"): a tree is a range of keys.

-- One row an entry, never changed but for the life of the action that it opened (state, ended, expires,
-- approved, call). seq is the entry's moment in microseconds. token tells the transaction that wrote it.
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
-- No index is over what a report changes, so that its update stays on the row's own page.
create index journal_call on journal(call) where call is not null;
create index journal_session on journal(session, seq);

-- What each session knows of a key, and its newest action there. changed: when that last changed it.
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

-- What is live, a row a key: open leases and questions (open = 1), waiters (2), unknown outcomes (0).
create table live(
    key text collate "C" not null,
    open int not null,
    id bigint not null,
    primary key(key, open, id)
);
create index live_waiting on live(id) where open = 2;

-- Digests of acts that happen again when they are repeated, of their origin and their stance.
create table print(
    key text collate "C" not null,
    print bytea not null,
    id bigint not null,
    primary key(key, print, id)
);

-- Keys that cover others: trees (ending in /) and the part of a facet up to its bar.
create table cover(key text collate "C" primary key);

create table session(
    namespace text collate "C" not null,
    name text collate "C" not null,
    seen bigint not null,
    parent text,
    continues text,
    primary key(namespace, name)
);

-- observe: until when the gate only observes. params:<id>: what a question would run.
create table meta(name text collate "C" primary key, value bytea);

-- The rows that transactions take in turn: see locks.py. They hold nothing.
create table turn(name text collate "C" primary key);
