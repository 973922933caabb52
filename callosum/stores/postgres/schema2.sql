-- Version 2: the journal becomes partitions of a table by its own name (see partitions.py). What is there stays where it is,
-- as the first of them; a statement of a server of the version before finds all by the old name.

alter table journal rename to journal_0;
create table journal(like journal_0) partition by range(seq);
alter table journal add constraint journal_seq primary key(seq);
create index journal_calls on journal(call) where call is not null;
create index journal_sessions on journal(session, seq);
alter table journal attach partition journal_0 for values from (minvalue) to (maxvalue);
