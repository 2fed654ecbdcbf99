-- key: number
-- parameters: run
-- The checkpoints of a run of a workflow, oldest first; node: the next one, NULL at the end.
select s.number, s.node, s.came_from, s.state, s.depth, s.at
  from agent.workflow_state(nullif(%(run)s, '')::bigint) s
 order by s.number
 limit 1000
