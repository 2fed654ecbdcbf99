-- key: id
-- parameters: since, q
-- Runs that failed, are dead or wait for a retry, grouped by reason; since: an interval.
with since (at) as (
    select now() - coalesce(nullif(%(since)s, '')::interval, '10 years')),
ended as (
    select r.* from agent.run r where r.state in ('failed', 'dead') and r.finished_at >= (select at from since)
    union all
    select r.* from agent.run r where r.state = 'waiting_retry' and r.created_at >= (select at from since)),
unhappy as (
    select r.id, r.state, coalesce(r.error ->> 'reason', 'no reason was recorded') as reason, r.error ->> 'sqlstate' as sqlstate,
           coalesce(v.definition ->> 'agent', r.kind) as agent, r.attachment_version as version,
           coalesce(r.finished_at, r.created_at) as at, r.next_attempt_at, r.error ->> 'tool' as tool, r.error ->> 'message' as message
      from ended r
           left join agent.attachment_version v on v.attachment_id = r.attachment_id and v.version = r.attachment_version),
matching as (
    select * from unhappy u
     where %(q)s = '' or strpos(lower(concat_ws(' ', u.sqlstate, u.reason, u.agent, u.tool)), lower(%(q)s)) > 0),
counted as (
    select m.state, m.reason, m.sqlstate, m.agent, m.version, count(*) as n,
           width_bucket(extract(epoch from m.at)::numeric, extract(epoch from now() - coalesce(nullif(%(since)s, '')::interval, '30 days'))::numeric,
                        extract(epoch from now())::numeric + 1, 16) as bucket,
           min(m.at) as first_at, max(m.at) as last_at, min(m.next_attempt_at) as next_attempt_at, max(m.tool) as tool, max(m.message) as message
      from matching m
     group by m.state, m.reason, m.sqlstate, m.agent, m.version, bucket)
select md5(concat_ws('|', c.state, c.reason, c.sqlstate, c.agent)) as id, c.state::text as state, c.reason, c.sqlstate, max(c.message) as message,
       c.agent, max(c.tool) as tool,
       (select coalesce(jsonb_object_agg(w.version, w.n), '{}')
          from (select o.version, sum(o.n) as n from counted o
                 where (o.state, o.reason, o.agent) = (c.state, c.reason, c.agent)
                  and o.sqlstate is not distinct from c.sqlstate and o.version is not null group by o.version) w) as versions,
       sum(c.n)::bigint as runs,
       (select jsonb_agg(coalesce((select sum(o.n) from counted o
                                    where (o.state, o.reason, o.agent) = (c.state, c.reason, c.agent)
                                     and o.sqlstate is not distinct from c.sqlstate and o.bucket = b), 0) order by b)
          from generate_series(1, 16) b) as spark,
       min(c.first_at) as first_at, max(c.last_at) as last_at, min(c.next_attempt_at) as next_attempt_at, %(since)s as ended
  from counted c
 group by c.state, c.reason, c.sqlstate, c.agent
 order by sum(c.n) desc, c.reason
 limit 200
