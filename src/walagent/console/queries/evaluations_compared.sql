-- key: first
-- parameters: first, second
-- What two evaluations have in common, as walagent evaluations compare says it.
select %(first)s::bigint as first, %(second)s::bigint as second,
       (select count(*) from agent.evaluation_case x where x.evaluation_id = %(first)s::bigint) as first_cases,
       (select count(*) from agent.evaluation_case x where x.evaluation_id = %(second)s::bigint) as second_cases, t.*
  from (
-- include: _compared_evaluations
       ) t
