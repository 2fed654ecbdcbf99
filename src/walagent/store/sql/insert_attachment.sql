-- Insert an attachment of the file; every field is given, except run_as and paused if not set.
insert into agent.attachment (name, agent, relation, ops, condition, columns, writes, bind, approve, run_as, query_as, ordering_key,
                              debounce, cap, backfill, server_filter, max_depth, approval_ttl, tenant_column, paused, source)
select %(name)s, r.agent, r.relation, r.ops, r.condition, r.columns, r.writes, r.bind, r.approve,
       coalesce(r.run_as, current_user), r.query_as, r.ordering_key, r.debounce, r.cap, r.backfill, r.server_filter, r.max_depth,
       r.approval_ttl, r.tenant_column, coalesce(r.paused, false), 'file'
  from jsonb_populate_record(null::agent.attachment, %(fields)s) r
