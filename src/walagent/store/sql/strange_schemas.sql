-- A schema or publication of walagent that belongs to neither this role nor a superuser: its owner would execute what it likes as
-- the role that calls what is in it.  A member of the owner has been chosen by it; a superuser is a member of everybody.
select s.kind, s.name, o.rolname::text
  from (select 'schema' as kind, n.nspname::text as name, n.nspowner as owner from pg_catalog.pg_namespace n
         where n.nspname in ('agent', 'agent_internal', 'agent_signed', 'agent_call')
         union all
        select 'publication', p.pubname::text, p.pubowner from pg_catalog.pg_publication p
         where p.pubname in ('walagent', 'walagent_inserts')) s
       join pg_catalog.pg_roles o on o.oid = s.owner,
       pg_catalog.pg_roles me
 where me.rolname = current_user and o.oid <> me.oid and not o.rolsuper
   and (me.rolsuper or not pg_catalog.pg_has_role(o.oid, 'usage'))
 order by s.kind desc, s.name
 limit 1
