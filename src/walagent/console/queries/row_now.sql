-- key: run_id
-- parameters: run
-- The newest content of a run's row that a run has seen.
select nullif(agent_internal.shown(n.change, n.attachment_id, (select agent_internal.readable())) -> 'new', 'null') as row, n.id as run_id, n.change ->> 'op' as op, n.committed_at
  from agent.run r
       join agent.run n on n.key = r.key and n.change ->> 'table' = r.change ->> 'table' and n.change ->> 'schema' = r.change ->> 'schema'
 where r.id = %(run)s::bigint
 order by n.id desc
 limit 1
