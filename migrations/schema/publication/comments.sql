comment on table agent_internal.published is 'Tables as walagent has added them to its publications';
comment on column agent_internal.published.entry is 'OID in pg_publication_rel: another one means that the table was removed and added again';

comment on table agent_internal.requested_table is 'Tables that sinks of the WAL request';
comment on column agent_internal.requested_table.requester is '"intake", or "slot" and the name of the slot whose reader requests it';
comment on column agent_internal.requested_table.row_filter is 'The only inserted rows that the requester needs; NULL: all';
comment on column agent_internal.requested_table.durable is 'Whether a change that was not sent is a gap, and not only missed';
