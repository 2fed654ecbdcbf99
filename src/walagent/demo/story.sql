-- Views of each ticket's outcome, for people and for the demo's summary.

create view effects as
    select ticket_id, 'refund' as kind, format('%s EUR given back', amount) as what from refunds
    union all
    select ticket_id, 'reply', body from replies
    union all
    select ticket_id, 'escalation', reason from escalations
    union all
    select ticket_id, 'wish', 'noted for the product team' from wishes
    union all
    select id, 'closed', 'without an answer' from support_tickets where status = 'closed';
comment on view effects is 'What the agent has done, one row each; a ticket should have one';

-- `runs` counts the runs of the ticket's INSERT, which is one change: more than one would be a
-- duplicate.  `acted` are the recorded calls with an effect, without update_row.
create view ticket_story as
    with run as (
        select key, min(id) as run, count(*) as runs, min(state) as state, min(error ->> 'reason') as error,
               min(committed_at) as committed_at, max(finished_at) as finished_at
          from agent.run
         where change ->> 'op' = 'insert' and change ->> 'table' = 'support_tickets'
         group by key
    ), step as (
        select r.key,
               string_agg(case s.kind when 'reply' then 'model'
                                      when 'result' then s.content ->> 'name'
                                      else s.kind end, ' → ' order by r.id, s.seq) as steps,
               array_agg(s.content ->> 'name' order by r.id, s.seq) filter (
                   where s.kind = 'result' and not (s.content ->> 'is_error')::boolean
                     and s.content ->> 'name' not in ('update_row', 'do_nothing')) as acted
          from agent.run r join agent.step s on s.run_id = r.id
         where r.change ->> 'op' = 'insert' and r.change ->> 'table' = 'support_tickets'
         group by r.key
    ), effect as (
        select ticket_id, count(*) as effects, string_agg(kind || ': ' || what, '; ') as effect
          from effects
         group by ticket_id
    )
    select t.id as ticket, t.subject, t.category, r.run, coalesce(r.runs, 0) as runs, r.state,
           coalesce(s.steps, '') as steps, coalesce(s.acted, '{}') as acted,
           coalesce(e.effects, 0) as effects, coalesce(e.effect, '') as effect,
           r.committed_at, r.finished_at,
           round(extract(epoch from r.finished_at - r.committed_at) * 1000)::integer as ms, r.error
      from support_tickets t
           left join run r on r.key = t.id::text
           left join step s on s.key = t.id::text
           left join effect e on e.ticket_id = t.id;
comment on view ticket_story is 'Each ticket with its run, its steps and what came of them';
