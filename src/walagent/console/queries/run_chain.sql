-- key: id
-- parameters: run
-- The causes of a run, the run itself, and what it caused among the next 20,000 runs.
with recursive up as (
    select r.id, r.cause_run, 0 as n from agent.run r where r.id = %(run)s::bigint
    union all
    select r.id, r.cause_run, up.n + 1 from up join agent.run r on r.id = up.cause_run where up.n < 20),
down as (
    select r.id, 1 as n from agent.run r
     where r.cause_run = %(run)s::bigint and r.id between %(run)s::bigint and %(run)s::bigint + 20000
    union all
    select r.id, down.n + 1 from down join agent.run r on r.cause_run = down.id and r.id between down.id and down.id + 20000
     where down.n < 5)
select r.id, coalesce(v.definition ->> 'agent', case when r.kind = 'question' then 'question' end) as agent,
       (r.change ->> 'schema') || '.' || (r.change ->> 'table') as relation, r.change ->> 'op' as op,
       r.depth, r.state::text as state, r.cause_run
  from agent.run r
       left join agent.attachment_version v on v.attachment_id = r.attachment_id and v.version = r.attachment_version
 where r.id in (select id from up union select id from down)
 order by r.depth, r.id
 limit 100
