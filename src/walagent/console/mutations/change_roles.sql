-- role: admin
-- parameters: changes, days
-- Grant and revoke roles, all or none: a JSON array of [principal, role, whether it is granted]; grants end after days, if it is given.
select count(case when c.change -> 2 = 'true' then
                      agent.grant_role((c.change ->> 0)::name, c.change ->> 1, now() + make_interval(days => nullif(%(days)s, '')::integer))::text
                  else agent.revoke_role((c.change ->> 0)::name, c.change ->> 1)::text end)
  from (select change from jsonb_array_elements(%(changes)s::jsonb) with ordinality x (change, n)
         order by change -> 2 desc, n) c  -- another admin first, then one less
