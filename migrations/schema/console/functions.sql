-- Args: days: up to how long ago the runs were created.
create or replace function agent.agent_analytics(days integer default 7)
    returns table (
        tenant text, agent text, runs bigint, succeeded bigint, failed bigint, waiting bigint, tokens numeric, cost numeric,
        average_seconds numeric, slow_seconds numeric, rating numeric
    )
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select r.tenant, r.agent, count(*), count(*) filter (where r.state = 'succeeded'),
           count(*) filter (where r.state in ('failed', 'dead')),
           count(*) filter (where r.state in ('waiting_approval', 'waiting_retry', 'needs_review')), sum(r.tokens), sum(r.cost),
           round(avg(r.seconds), 3), round((percentile_cont(0.95) within group (order by r.seconds))::numeric, 3),
           (select round(avg(o.rating), 2)
              from agent.observation o join agent.event e on e.tenant = o.tenant and e.id = o.event_id
             where o.tenant = r.tenant and o.type = 'rating' and e.author = r.agent
               and o.created_at > agent_internal.now() - make_interval(days => agent_analytics.days))
      from (select x.tenant, coalesce(a.agent, x.principal::text) as agent, x.state, x.tokens, x.cost,
                   extract(epoch from x.finished_at - x.started_at) as seconds
              from agent.run x left join agent.attachment a on a.tenant = x.tenant and a.id = x.attachment_id
             where x.created_at > agent_internal.now() - make_interval(days => agent_analytics.days) and x.kind <> 'question') r
     where r.agent is not null
     group by r.tenant, r.agent
$$;
comment on function agent.agent_analytics(integer) is 'Runs, tokens, cost, durations and ratings of each agent in the last days';
