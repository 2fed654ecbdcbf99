-- key: id
-- parameters: id
-- A memory whole, then what it replaced, newest first.
with recursive chain (tenant, id, depth) as (
    select m.tenant, m.id, 0 from agent.memory m where m.tenant = agent.current_tenant() and m.id::text = %(id)s
     union all
    select m.tenant, m.id, c.depth + 1
      from chain c
           join agent.memory m on m.tenant = c.tenant and m.superseded_by = c.id
     where c.depth < 50)
select m.id, c.depth, case when jsonb_typeof(m.value) = 'string' then m.value #>> '{}' else jsonb_pretty(m.value) end as value,
       jsonb_typeof(m.value) = 'string' as is_text, m.trust, s.state, m.importance, m.expires_at, m.retracted_at, m.run_id, m.event_id,
       m.created_by::text, m.created_at, m.access_count, m.accessed_at, m.embedding_model,
       agent.has_role('developer') as may_change
  from chain c
       join (select m.*, s.state
-- include: _memory_from
            ) m on m.tenant = c.tenant and m.id = c.id
       cross join lateral (select m.state) s
 order by c.depth, m.created_at desc
