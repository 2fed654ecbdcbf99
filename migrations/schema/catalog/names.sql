-- What is called by its name later means what it meant when it was written, unless its owner, or that of its schema, has given
-- the name to something else.

-- What of users a view of one expression uses.
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
           join agent_internal.named_object o on o.classid = d.refclassid and o.oid = d.refobjid
     where w.ev_class = _view and not (d.refclassid = 'pg_class'::regclass and d.refobjid = _view)
$$;
comment on function agent_internal.names_used_by(regclass) is 'The relations, functions, operators and types of users that a view uses, with their owners';

-- What has a name of these now, and belongs neither to the owner that was written nor to a role that can act as it; NULL: nothing.
-- An overload is such a thing: a call can mean it.
create or replace function agent_internal.exchanged_name(_used jsonb)
    returns text
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select format('%s %s belongs to role "%s", and what is called is of "%s"', u.kind, (pg_identify_object(o.classid, o.oid, 0)).identity,
                  pg_get_userbyid(o.owner), u.owner)
      from jsonb_to_recordset(_used) as u (kind text, schema name, name name, owner name)
           join pg_namespace n on n.nspname = u.schema
           join agent_internal.named_object o on o.kind = u.kind and o.schema = n.oid and o.name = u.name
     where agent_internal.is_safe_owner(o.owner, u.owner) is not true
     limit 1
$$;
comment on function agent_internal.exchanged_name(jsonb) is 'What has been given a name that something is called by, if it has another owner';
