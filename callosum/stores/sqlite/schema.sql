-- Records by name, in one order. callosum.stores.names says what a name means, callosum.stores.records what a value holds.
create table record(name blob primary key, value blob not null) strict, without rowid;

-- One row per entry; seq is its time in microseconds. An entry about an action has only the columns that tell it apart:
-- the others are those of the entry that opened the action.
create table journal(
    seq integer primary key,
    event text not null,
    namespace text not null,
    session text not null,
    action int,
    run text,
    tool text,
    tier int,
    verdict text,
    rule text,
    outcome text,
    key text,          -- the first key
    keys text,         -- JSON: [[name, mode], ...]
    body text,         -- JSON
    record blob        -- of the action that the entry opened: its record, which is named by the entry
) strict;

-- What the file itself must know: its identity, the agreed clock, what left it, what was accepted.
create table meta(name text primary key, value) without rowid;
