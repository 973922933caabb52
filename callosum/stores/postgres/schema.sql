-- Records by name, in the order of bytes. callosum.stores.names says what a name means. revision is the token of the
-- transaction that wrote the record. There is room on a page for the next version of a record.
create table record(
    name bytea primary key,
    value bytea not null,
    revision bigint not null
) with (fillfactor = 70);

-- One row for each entry; seq is its moment in microseconds. token identifies the transaction that wrote it. An entry about
-- an action has only the columns that tell it apart: the others are those of the entry that opened the action. record is
-- the record that belongs to the entry; no other column changes. partitions.py says how the table is divided.
create table journal(
    seq bigint primary key,
    token bigint not null,
    event text not null,
    namespace text not null,
    session text not null,
    action bigint,
    run text,
    tool text,
    tier int,
    verdict text,
    rule text,
    outcome text,
    key text,
    keys text,
    body text,
    record bytea
) partition by range(seq);
create table journal_0 partition of journal for values from (minvalue) to (maxvalue) with (fillfactor = 80);

-- What the store itself must know: its identity, what left it, what was accepted.
create table meta(name text primary key, value text);
