-- key: agent
-- Agents of which more was wrong in the last 7 days than in the 28 days before: each with 20 values at least, and a difference that
-- chance alone makes in one of a hundred weeks (2.33 standard errors).  What is new has had less time to be corrected, so a fall that
-- is shown is real rather than early.
with period as (
    select a.agent, a.day >= d.since as is_new, sum(a.written)::bigint as written, sum(a.wrong)::bigint as wrong
      from agent.accuracy a
           cross join (select (agent_internal.now() - interval '7 days')::date as since) d
     -- Counting reads what was written in all days; without anything new that is wrong, there is nothing to say.
     where (select exists (select from agent.correction k where k.committed_at >= agent_internal.now() - interval '8 days')
                   or exists (select from agent.score s where s.value < 0 and s.scored_at >= agent_internal.now() - interval '8 days'))
       and a.tenant = (select agent.current_tenant()) and a.day >= d.since - 28
     group by a.agent, 2
)
select n.agent, n.written, n.wrong, b.written as written_before, b.wrong as wrong_before
  from period n
       join period b on b.agent = n.agent and n.is_new and not b.is_new
       cross join lateral (select (n.wrong + b.wrong)::float8 / (n.written + b.written) as both,
                                  n.wrong::float8 / n.written - b.wrong::float8 / b.written as fall) p
 where n.written >= 20 and b.written >= 20
   and p.fall > 2.33 * sqrt(p.both * (1 - p.both) * (1.0 / n.written + 1.0 / b.written))
 order by p.fall desc, n.agent
 limit 5
