-- Set the given fields of an attachment.
update agent.attachment a
   set (agent, relation, ops, condition, columns, writes, bind, approve, run_as, query_as, ordering_key, debounce, cap, backfill,
        server_filter, max_depth, approval_ttl, tenant_column, paused, paused_reason, paused_by, source)
     = (select r.agent, r.relation, r.ops, r.condition, r.columns, r.writes, r.bind, r.approve, r.run_as, r.query_as, r.ordering_key,
               r.debounce, r.cap, r.backfill, r.server_filter, r.max_depth, r.approval_ttl, r.tenant_column, r.paused,
               case when r.paused then a.paused_reason end, case when r.paused then a.paused_by end, r.source
          from jsonb_populate_record(a, %(fields)s) r)
 where a.tenant = agent.current_tenant() and a.name = %(name)s
