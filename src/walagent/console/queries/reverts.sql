-- key: id
-- parameters: run
-- Which runs take a run back, and which run it takes back itself, the newest first.
select r.id, r.undoes, r.state::text as state, coalesce((r.change -> 'dry_run')::boolean, false) as is_dry,
       coalesce((r.change -> 'only_unchanged')::boolean, false) as only_unchanged,
       coalesce((r.change -> 'partial')::boolean, false) as is_partial,
       r.state = 'succeeded' and not r.change ?| '{dry_run,partial}' and agent_internal.in_effect(r.id) as is_in_effect,
       r.change ->> 'by' as by, coalesce(r.result, r.error ->> 'reason') as result, r.created_at, r.finished_at
  from agent.run r
 where r.kind = 'revert' and (r.undoes = %(run)s::bigint or r.id = %(run)s::bigint)
 order by r.id desc
 limit 50
