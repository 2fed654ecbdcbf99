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

-- What an expression calls by a name alone, which is PostgreSQL's own: in each schema of the path that the expression is executed
-- with, a function or operator of that name which fits better could be called in its place.
--
-- Args: _compiled: as PostgreSQL prints it. _path: a search_path.  _role: as which it is executed, and whose own it may be.
-- Returns as agent_internal.names_used_by() does, with "bare": true.  More than is called harms nothing.
create or replace function agent_internal.names_called_bare(_compiled text, _path text, _role name)
    returns jsonb
    language sql
    stable
    set search_path = pg_catalog, pg_temp
    set standard_conforming_strings = on
as $$
    with bare (kind, spelled) as (
        select 'function', m[1] from regexp_matches(_compiled, '(?<![.a-z0-9_$"])("(?:[^"]|"")+"|[a-z_][a-z0-9_$]*)\(', 'g') m
        union
        select 'operator', m[1] from regexp_matches(_compiled, '([-+*/<>=~!@#%^&|`?]+)', 'g') m
        union
        select 'operator', '='  -- of IN, CASE, NULLIF and IS DISTINCT FROM
        union
        select 'type', m[1] from regexp_matches(_compiled, '(?:::|RETURNING |[(,]\s*(?:"(?:[^"]|"")+"|[a-z_][a-z0-9_$]*) )("(?:[^"]|"")+"|[a-z_][a-z0-9_$]*)', 'g') m
        union
        select 'relation', m[1] from regexp_matches(_compiled, '(?:FROM|JOIN)\s+(?:ONLY\s+|\(+)*("(?:[^"]|"")+"|[a-z_][a-z0-9_$]*)', 'g') m
    ), place (spelled, n) as (
        select m[1], n from regexp_matches(_path, '("(?:[^"]|"")+"|[^[:space:],"]+)', 'g') with ordinality as found (m, n)
    ), schema (name, n) as (
        select case when p.spelled in ('"$user"', '$user') then _role
                    when left(p.spelled, 1) = '"' then replace(substr(p.spelled, 2, length(p.spelled) - 2), '""', '"')::name
                    else lower(p.spelled)::name end, p.n from place p
    )
    select coalesce(jsonb_agg(distinct jsonb_build_object(
               'bare', true, 'kind', b.kind, 'schema', s.name, 'owner', _role,
               'name', case when left(b.spelled, 1) = '"' then replace(substr(b.spelled, 2, length(b.spelled) - 2), '""', '"') else b.spelled end)), '[]')
      from bare b cross join schema s
     where s.name not in ('pg_catalog', 'pg_temp', 'information_schema')
       -- Types and relations are those of the first schema that has them: of pg_catalog, unless the path names it later.
       and (b.kind in ('function', 'operator') or s.n < (select p.n from schema p where p.name = 'pg_catalog'))
$$;
comment on function agent_internal.names_called_bare(text, text, name) is 'What of PostgreSQL an expression calls by a name alone, in each schema of a path';

-- Whether a function or operator cannot fit where values of PostgreSQL's own types are given: it takes another type, and no cast
-- leads there by itself.  A domain, a row and what takes any type can fit.
create or replace function agent_internal.takes_other_types(_kind text, _object oid)
    returns boolean
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select exists (
        select
          from unnest(case _kind when 'function' then (select (p.proargtypes::oid[])[0 : p.pronargs - p.pronargdefaults - 1]  -- the others can be left out
                                                          from pg_proc p where p.oid = _object)
                                 when 'operator' then (select array[o.oprleft, o.oprright] from pg_operator o where o.oid = _object) end) as given (type)
               join pg_type g on g.oid = given.type
               join pg_type t on t.oid = case when g.typelem <> 0 and g.typlen = -1 then g.typelem else g.oid end
         where t.typnamespace <> 'pg_catalog'::regnamespace and t.typtype in ('b', 'e', 'r', 'm')
           and not exists (select from pg_cast c where c.casttarget = t.oid and c.castcontext = 'i'))
$$;

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
      from jsonb_to_recordset(_used) as u (bare boolean, kind text, schema name, name name, owner name)
           join pg_namespace n on n.nspname = u.schema
           -- By the index of each catalog: to read them whole takes milliseconds, before each call of a tool.
           cross join lateral (select * from agent_internal.named_object o
                                where o.kind = u.kind and o.schema = n.oid and o.name = u.name offset 0) o
     where agent_internal.is_safe_owner(o.owner, u.owner) is not true
       and not (u.bare is true and agent_internal.takes_other_types(u.kind, o.oid))
     limit 1
$$;
comment on function agent_internal.exchanged_name(jsonb) is 'What has been given a name that something is called by, if it has another owner';
