-- The attachments of the tenant, in the form that `apply` compares: times in seconds, the relation by OID.
select a.name,
       jsonb_build_object(
           'agent', a.agent, 'relation', a.relation::oid::bigint, 'ops', a.ops, 'condition', a.condition,
           'columns', a.columns, 'writes', a.writes, 'bind', a.bind, 'approve', a.approve, 'run_as', a.run_as,
           'query_as', a.query_as, 'ordering_key', a.ordering_key, 'debounce', extract(epoch from a.debounce)::float8, 'cap', a.cap,
           'tenant_column', a.tenant_column, 'backfill', a.backfill, 'server_filter', a.server_filter, 'max_depth', a.max_depth,
           'approval_ttl', extract(epoch from a.approval_ttl)::float8, 'paused', a.paused,
           'source', a.source) as fields
  from agent.attachment a
 where a.tenant = agent.current_tenant()
