-- key: day, agent, model, tenant
-- parameters: days
-- What model calls cost and used, by day, agent, model and tenant; days end at midnight of the server's time zone.
select s.recorded_at::date::text as day,
       coalesce(v.definition ->> 'agent', case r.kind when 'question' then 'questions' else r.kind end) as agent,
       coalesce(s.content ->> 'registered', v.definition ->> 'model', s.content ->> 'model', '') as model, r.tenant,
       count(distinct r.id) as runs, sum(s.cost) as cost, count(*) filter (where s.cost is null) as unknown,
       sum(coalesce(s.input_tokens, 0) + coalesce(s.cached_tokens, 0) + coalesce(s.cache_write_tokens, 0) + coalesce(s.output_tokens, 0))::bigint
           as tokens,
       sum(coalesce(s.cached_tokens, 0))::bigint as cached
  from agent.run r
       join agent.step s on s.run_id = r.id and s.kind = 'reply' and not s.content ?| '{kept,written_by}'
       left join agent.attachment_version v on v.attachment_id = r.attachment_id and v.version = r.attachment_version
 where r.created_at >= date_trunc('day', now()) - make_interval(days => least(coalesce(nullif(%(days)s, '')::integer, 14), 366) - 1)
 group by 1, 2, 3, 4
 order by 1, 6 desc nulls last
 limit 5000
