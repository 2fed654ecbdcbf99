-- key: who, did
-- parameters: entry, who, did, object, since, until, q
-- How often who did what, of the newest 10,001 rows of the audit that match.
with matching as (
    select a.principal, a.action
      from agent.audit a
     where
-- include: _audit_filter
     order by a.number desc
     limit 10001)
select m.principal::text as who, m.action as did, count(*) as n
  from matching m
 group by 1, 2
 order by 3 desc, 1, 2
