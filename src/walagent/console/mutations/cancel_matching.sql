-- role: approver
-- parameters: state, agent, relation, key, kind, reason, sqlstate, model, duration, cost, since, until, ended, tenant, q, oldest, before
-- Cancel a batch of the runs that match, the newest first; last: where the next batch starts.
with batch as materialized (
    select r.id from agent.run r
     where (%(before)s = '' or r.id < nullif(%(before)s, '')::bigint)
       and r.state in ('pending', 'running', 'waiting_approval', 'waiting_retry', 'needs_review')
       and
-- include: _run_filter
     order by r.id desc limit 500)
select jsonb_build_object('done', case when count(*) > 0 then agent.cancel_runs(array_agg(id)) else 0 end,
                          'last', case when count(*) = 500 then min(id)::text end)
  from batch
