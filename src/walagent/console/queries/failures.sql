-- key: id
-- parameters: since, q
-- Runs that failed or are dead, grouped by agent and reason, with what was decided about them; since: an interval.
with since (at) as (
    select now() - coalesce(nullif(%(since)s, '')::interval, '10 years')),
ended as (
    select f.* from agent_internal.failure f where f.state in ('failed', 'dead') and f.finished_at >= (select at from since)
    union all
    select f.* from agent_internal.failure f where f.state = 'waiting_retry' and f.created_at >= (select at from since)),
unhappy as (
    select e.*, e.error ->> 'reason' as example, e.error ->> 'tool' as tool, e.error ->> 'message' as message from ended e),
matching as (
    select * from unhappy u
     where %(q)s = '' or strpos(lower(concat_ws(' ', u.sqlstate, u.reason, u.example, u.agent, u.tool)), lower(%(q)s)) > 0),
counted as (
    select m.state = 'waiting_retry' as waits, m.reason, m.sqlstate, m.agent, m.version, m.made_at, m.replaced_at, m.is_present, count(*) as n, array_agg(distinct m.state::text) as states,
           width_bucket(extract(epoch from m.at)::numeric, extract(epoch from now() - coalesce(nullif(%(since)s, '')::interval, '30 days'))::numeric,
                        extract(epoch from now())::numeric + 1, 16) as bucket,
           min(m.at) as first_at, max(m.at) as last_at, max(m.tool) as tool, max(m.message) as message, max(m.example) as example
      from matching m
     group by waits, m.reason, m.sqlstate, m.agent, m.version, m.made_at, m.replaced_at, m.is_present, bucket),
failure as (
    select md5(c.agent || '|' || c.sqlstate || '|' || c.reason) as id, c.reason, c.sqlstate, c.agent,
           coalesce(sum(c.n) filter (where not c.waits), 0)::bigint as runs, coalesce(sum(c.n) filter (where c.waits), 0)::bigint as waiting,
           max(c.message) as message, max(c.tool) as tool, max(c.example) as example,
           bool_or(c.is_present) as fails_now, bool_or(c.made_at is not null) as has_versions, min(c.first_at) as first_at, max(c.last_at) as last_at
      from counted c
     group by c.agent, c.sqlstate, c.reason)
select f.id, f.reason, nullif(f.sqlstate, '') as sqlstate, f.agent, f.runs, f.waiting, f.message, f.tool, f.example, f.first_at, f.last_at,
       (select string_agg(distinct s, ',' order by s) from counted c cross join unnest(c.states) s
         where (c.agent, c.sqlstate, c.reason) = (f.agent, f.sqlstate, f.reason) and not c.waits) as states,
       (select coalesce(jsonb_object_agg(w.version, w.n), '{}')
          from (select c.version, sum(c.n) as n from counted c
                 where (c.agent, c.sqlstate, c.reason) = (f.agent, f.sqlstate, f.reason) and not c.waits and c.version is not null
                 group by c.version) w) as versions,
       (select jsonb_agg(coalesce((select sum(c.n) from counted c
                                    where (c.agent, c.sqlstate, c.reason, c.bucket) = (f.agent, f.sqlstate, f.reason, b) and not c.waits), 0) order by b)
          from generate_series(1, 16) b) as spark,
       case when i.state = 'muted' and i.muted_until > now() then 'muted'
            when i.state = 'resolved' and exists (
                select from counted c
                 where (c.agent, c.sqlstate, c.reason) = (f.agent, f.sqlstate, f.reason) and not c.waits and c.last_at > i.since
                   and agent_internal.fails_again(i.resolved_in, i.since, c.made_at, c.replaced_at)) then 'regressed'
            when i.state = 'resolved' then 'resolved'
            when f.first_at > now() - interval '1 day' and (select at from since) < now() - interval '1 day' then 'new'
            else 'ongoing' end as issue,
       i.since as decided_at, i.resolved_in, i.muted_until, i.assignee::text, i.changed_by::text,
       case when f.has_versions then case when f.fails_now then 'next' else 'present' end end as fixable_in,
       %(since)s as ended
  from failure f left join agent.issue i on i.id = f.id and i.tenant = agent.current_tenant()
 order by f.runs desc, f.reason
 limit 200
