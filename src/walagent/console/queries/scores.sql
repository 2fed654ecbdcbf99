-- key: principal
-- parameters: run
-- What people say of a run, the latest first.
select s.principal, s.value::float8, left(s.comment, 2000) as comment, s.scored_at
  from agent.score s
 where s.run_id = %(run)s::bigint
 order by s.scored_at desc, s.principal
 limit 50
