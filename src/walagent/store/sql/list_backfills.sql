-- Backfills, unfinished ones first.  The total is the planner's estimate until the end.
select a.name as attachment, a.relation::text as relation,
       b.generation, case when b.generation = 0 then 'attach' else 'gap' end as after, b.state, b.rows_done, b.rows_total, b.runs,
       b.error, b.started_at, b.finished_at
  from agent.backfill b
       join agent.attachment a on a.id = b.attachment_id
 order by b.state not in ('pending', 'running'), b.attachment_id, b.generation
