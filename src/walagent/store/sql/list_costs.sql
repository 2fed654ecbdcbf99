-- What model calls used, by agent, model and day (UTC): of the runs that are kept.  The model is that of the call, as it
-- is registered: a run that is retried can have another now.  Steps of earlier versions have the run's model.
select case when 'day' = any (%(by)s) then (s.recorded_at at time zone 'UTC')::date::text end as day,
       case when 'agent' = any (%(by)s) then coalesce(v.definition ->> 'agent', '(' || r.kind || ')') end as agent,
       case when 'model' = any (%(by)s) then coalesce(s.content ->> 'registered', v.definition ->> 'model', s.content ->> 'model') end as model,
       count(distinct s.run_id) as runs,
       ceil(sum(1.0 / coalesce((s.content -> 'rows')::integer, 1)) filter (where not s.content ? 'reused'))::bigint as calls,
       coalesce(sum(s.input_tokens), 0)::bigint as input,
       coalesce(sum(s.cached_tokens), 0)::bigint as cached,
       coalesce(sum(s.cache_write_tokens), 0)::bigint as cache_write,
       coalesce(sum(s.output_tokens), 0)::bigint as output,
       sum(s.cost)::float8 as cost,
       (sum(s.cost) / count(distinct s.run_id))::float8 as per_run,
       count(*) filter (where s.cost is null) as unknown
  from agent.step s
       join agent.run r on r.id = s.run_id
       left join agent.attachment_version v on v.attachment_id = r.attachment_id and v.version = r.attachment_version
 where (s.kind = 'reply' or s.kind in ('result', 'note') and s.input_tokens is not null)  -- of a tool that is a model, or no answer for the row
   and not s.content ?| '{kept,written_by}'
   and (%(since)s::timestamptz is null or s.recorded_at >= %(since)s)
   and (%(age)s::interval is null or s.recorded_at >= agent_internal.now() - %(age)s)
 group by 1, 2, 3
 order by 1 desc, sum(s.cost) desc nulls last, 2, 3
