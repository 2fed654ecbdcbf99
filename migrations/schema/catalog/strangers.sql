-- Whether relations can run code of roles that own none of them, are no superusers and not walagent: at once, for it follows nothing.
--
-- store/relations/table_code.py executes the body, also in databases without this schema.
create or replace function agent_internal.has_strangers(_relations oid[])
    returns boolean
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select exists (
        select from pg_proc p
                    join pg_roles o on o.oid = p.proowner
                    join pg_namespace n on n.oid = p.pronamespace
         where p.oid >= 16384 and not o.rolsuper
           and n.nspname not in ('agent', 'agent_internal', 'agent_signed', 'agent_call')
           and p.proowner not in (select relowner from pg_class where oid = any (_relations)))
$$;
comment on function agent_internal.has_strangers(oid[]) is 'Whether relations can run code of roles that own none of them';
