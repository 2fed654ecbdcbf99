-- What is called by its name later means what it meant when it was written, unless its owner, or that of its schema, has given
-- the name to something else.

-- The relations, functions, operators and types of users that a view of one expression uses.
--
-- Returns: [{"kind", "schema", "name", "owner"}].
create or replace function agent_internal.names_used_by(_view regclass)
    returns jsonb
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select coalesce(jsonb_agg(distinct jsonb_build_object(
               'kind', o.kind, 'schema', o.schema::regnamespace::name, 'name', o.name, 'owner', pg_get_userbyid(o.owner))), '[]')
      from pg_rewrite w
           join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = w.oid
           cross join lateral (
               select 'function', p.pronamespace, p.proname, p.proowner from pg_proc p
                where d.refclassid = 'pg_proc'::regclass and p.oid = d.refobjid
                union all
               select 'operator', p.oprnamespace, p.oprname, p.oprowner from pg_operator p
                where d.refclassid = 'pg_operator'::regclass and p.oid = d.refobjid
                union all
               select 'type', t.typnamespace, t.typname, t.typowner from pg_type t
                where d.refclassid = 'pg_type'::regclass and t.oid = d.refobjid
                union all
               select 'relation', c.relnamespace, c.relname, c.relowner from pg_class c
                where d.refclassid = 'pg_class'::regclass and c.oid = d.refobjid and c.oid <> w.ev_class) as o (kind, schema, name, owner)
     where w.ev_class = _view
$$;
comment on function agent_internal.names_used_by(regclass) is 'The relations, functions, operators and types of users that a view uses, with their owners';

-- What has a name of these now, and belongs neither to the owner that was written nor to a role that can act as it; NULL: nothing.  An overload is
-- such a thing: a call can mean it.
create or replace function agent_internal.exchanged_name(_used jsonb)
    returns text
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select format('%s %s belongs to role "%s", and what is called is of "%s"', u.kind, o.name, pg_get_userbyid(o.owner), u.owner)
      from jsonb_to_recordset(_used) as u (kind text, schema name, name name, owner name)
           join pg_namespace n on n.nspname = u.schema
           cross join lateral (
               select format('%I.%I(%s)', u.schema, p.proname, pg_get_function_identity_arguments(p.oid)), p.proowner from pg_proc p
                where u.kind = 'function' and p.pronamespace = n.oid and p.proname = u.name
                union all
               select format('%I.%s', u.schema, p.oprname), p.oprowner from pg_operator p
                where u.kind = 'operator' and p.oprnamespace = n.oid and p.oprname = u.name
                union all
               select format('%I.%I', u.schema, t.typname), t.typowner from pg_type t
                where u.kind = 'type' and t.typnamespace = n.oid and t.typname = u.name
                union all
               select format('%I.%I', u.schema, c.relname), c.relowner from pg_class c
                where u.kind = 'relation' and c.relnamespace = n.oid and c.relname = u.name) as o (name, owner)
     where agent_internal.is_safe_owner(o.owner, u.owner) is not true
     limit 1
$$;
comment on function agent_internal.exchanged_name(jsonb) is 'What has been given a name that something is called by, if it has another owner';
