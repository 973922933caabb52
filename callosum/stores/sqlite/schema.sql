-- One row per entry. Only the columns about the life of the action that it opened change (state, ended,
-- expires, approved, call). seq is the entry's time in microseconds.
create table journal(
    seq integer primary key,
    event text not null,
    namespace text not null,
    session text not null,
    run text,
    tool text,
    tier int,
    verdict text,
    rule text,
    action int,
    outcome text,
    key text,          -- the first key, with its namespace
    keys text,         -- JSON: [[name, mode, before], ...]; before: this session's previous action
                       -- on the key, or its previous read where the mode is read
    body text,         -- JSON
    call blob,         -- identity of the call, while it is remembered
    state text,        -- null: this entry opened nothing
    ended int,
    expires int,
    approved int,
    content blob,
    extra blob
) strict;
create index journal_call on journal(call) where call is not null;
create index journal_unreported on journal(session, seq) where call is null and ended = 0;

-- Each session's marks on a key, and its newest action there. changed: when that action last changed the key.
-- crowd: 1 for the marks of a key with many of them; such a key also has a mark of no session ('').
create table mark(
    key text not null,
    session text not null,
    read int not null,
    told int not null,
    kind int not null,
    note blob,
    acted int,
    changed int not null,
    crowd int not null default 0,
    primary key(key, session)
) strict, without rowid;
create index mark_crowd on mark(key, changed) where crowd = 1;

-- Open leases, waiters and questions (open = 1) and unknown outcomes (open = 0), one row per key.
create table live(
    key text not null,
    open int not null,
    id int not null,
    primary key(key, open, id)
) strict, without rowid;

-- Digests of actions that take effect again when repeated, of their origin and of their stance.
create table print(
    key text not null,
    print blob not null,
    id int not null,
    primary key(key, print, id)
) strict, without rowid;

-- Keys that cover others: trees (ending in /), and the part of a facet up to its bar.
create table cover(key text primary key) strict, without rowid;

create table session(
    name text primary key,
    seen int not null,
    parent text,
    continues text
) strict, without rowid;

-- observe: the time until which the gate only observes. params:<id>: the params that an approved question runs with.
create table meta(name text primary key, value) without rowid;
