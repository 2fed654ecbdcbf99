-- key: name, value
-- What the filter of runs suggests.
select 'agent' as name, g.name as value from agent.agent g
union
select 'table', a.relation::text from agent.attachment a where exists (select from pg_catalog.pg_class c where c.oid = a.relation)
union
select 'tenant', t.name from agent.tenant t
union
select 'model', m.name from agent.model m
