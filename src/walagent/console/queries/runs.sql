-- key: id
-- parameters: state, agent, relation, key, kind, reason, sqlstate, model, duration, cost, since, until, ended, tenant, q, oldest, before, limit
-- A page of runs, newest first; before: the last ID of the page before.
select
-- include: _run_row
-- include: _run_from
 where (%(before)s = '' or r.id < nullif(%(before)s, '')::bigint)
   and
-- include: _run_filter
 order by r.id desc
 limit least(%(limit)s::integer, 500)
