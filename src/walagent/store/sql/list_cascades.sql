-- What the models of cascades decided, by agent and stage: of the runs that are kept and have succeeded.  A run is decided by the model
-- that replied last; steps that a fork kept, and replies that a person wrote, do not count.
with ended as materialized (
    select r.id, v.definition ->> 'agent' as agent, jsonb_array_length(v.definition -> 'stages') as stages
      from agent.run r
           join agent.attachment_version v on v.attachment_id = r.attachment_id and v.version = r.attachment_version
     where r.state = 'succeeded' and r.kind = 'agent' and v.definition ? 'stages'
       and (%(agent)s::text is null or v.definition ->> 'agent' = %(agent)s)
       and (%(since)s::timestamptz is null or r.finished_at >= %(since)s)
       and (%(age)s::interval is null or r.finished_at >= agent_internal.now() - %(age)s)
), reply as (
    select e.agent, s.run_id, s.seq, s.cost, s.content ->> 'registered' as model, (s.content ->> 'stage')::integer as stage,
           (s.content ->> 'control')::integer as control,
           (select coalesce(jsonb_agg(jsonb_build_array(p -> 'name', p -> 'arguments') order by p ->> 'name', p -> 'arguments'), '[]')
              from jsonb_array_elements(s.content -> 'parts') p where p ? 'call') as calls
      from ended e join agent.step s on s.run_id = e.id
     where s.kind = 'reply' and not s.content ?| '{kept,written_by}'
), decided as (
    select distinct on (y.run_id) y.run_id, y.stage from reply y where y.stage is not null order by y.run_id, y.seq desc
), control as (
    select c.control as stage, c.run_id, c.cost, c.calls = f.calls as agrees
      from reply c
           cross join lateral (select y.calls from reply y where y.run_id = c.run_id and y.stage = c.control order by y.seq limit 1) f
     where c.control is not null
), asked as (
    select y.agent, y.stage, y.model, y.run_id, sum(y.cost) as cost from reply y where y.stage is not null group by 1, 2, 3, 4
)
select a.agent,
       a.stage,
       a.model,
       count(*) as asked,
       count(*) filter (where d.stage = a.stage) as decided,
       round(count(*) filter (where d.stage = a.stage)::numeric / (select count(*) from decided x join ended e on e.id = x.run_id where e.agent = a.agent), 4)
           as share,
       sum(a.cost)::float8 as cost,
       count(c.run_id) as controlled,
       count(*) filter (where c.agrees) as agreed,
       round(count(*) filter (where c.agrees)::numeric / nullif(count(c.run_id), 0), 4) as agreement,
       sum(c.cost)::float8 as control_cost,
       count(*) filter (where d.stage = a.stage and exists (select from agent.correction k where k.run_id = a.run_id and k.kind <> 'bulk')) as corrected
  from asked a
       join decided d on d.run_id = a.run_id
       left join control c on c.run_id = a.run_id and c.stage = a.stage
 group by a.agent, a.stage, a.model
 order by a.agent, a.stage, a.model
