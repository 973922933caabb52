-- Version 2: the journal becomes a partitioned table of the same name (see partitions.py). The existing table stays as it is
-- and becomes the first partition; statements of servers of the previous version still find everything by the old name.

alter table journal rename to journal_0;
create table journal(like journal_0) partition by range(seq);
alter table journal add constraint journal_seq primary key(seq);
create index journal_calls on journal(call) where call is not null;
create index journal_sessions on journal(session, seq);
alter table journal attach partition journal_0 for values from (minvalue) to (maxvalue);
