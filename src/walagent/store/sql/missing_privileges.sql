-- The privileges that the daemon's role lacks; agent.grant_runner() grants all of them.
with needed (relation, privilege) as (
    values ('agent.run', 'select'), ('agent.run', 'insert'), ('agent.run', 'update'), ('agent.run', 'delete'),
           ('agent.step', 'select'), ('agent.step', 'insert'), ('agent.approval', 'insert'),
           ('agent.approval', 'update'), ('agent_internal.queue', 'update'), ('agent.checkpoint', 'insert'),
           ('agent.checkpoint', 'update'), ('agent.gap', 'insert'), ('agent.attachment_version', 'insert'),
           ('agent.worker', 'insert'), ('agent_internal.secret', 'select'),
           ('agent.model', 'select'), ('agent.attachment', 'select'), ('agent.budget', 'select'),
           ('agent_internal.budget_use', 'update'), ('agent.spend', 'insert')
)
select 'usage on schemas agent and agent_internal'
 where not (has_schema_privilege('agent', 'usage') and has_schema_privilege('agent_internal', 'usage'))
union all
select n.privilege || ' on ' || n.relation
  from needed n
       join pg_namespace s on s.nspname = split_part(n.relation, '.', 1)
       join pg_class c on c.relnamespace = s.oid and c.relname = split_part(n.relation, '.', 2)
 where not has_table_privilege(c.oid, n.privilege)
