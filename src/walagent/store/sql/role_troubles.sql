-- Who else can act as the roles of walagent, as those that were given a capability, and as the roles %(named)s of its settings.
with own as (
    select o.role, o.logs_in from agent_internal.own_roles() o
), named as (
    select distinct r.rolname as role
      from pg_catalog.pg_roles r
     where not r.rolsuper and r.rolname not in (select o.role from own o)
       and (r.rolname = any (%(named)s::text[])
            or has_schema_privilege(r.oid, 'agent', 'usage') and r.rolname in (select h.role from agent_internal.holder h))
)
select o.role::text, t.trouble, t.statement
  from own o cross join lateral agent_internal.role_trouble(o.role, o.logs_in) t
 union all
select n.role::text, format('role "%%s" can act as it', m.member), m.statement
  from named n cross join lateral agent_internal.strange_members(n.role, true) m
 order by 1, 2
