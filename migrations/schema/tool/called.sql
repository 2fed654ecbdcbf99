-- Whether a call of a SQL tool, which is made by name, means the function that was made a tool.

-- Whose a tool's function is, if neither the role that it was made a tool with nor one that can act as that; NULL: theirs.
--
-- A tool is called by its name: who owns the schema, or has CREATE there after it was dropped, can give the name to a function of
-- their own, which would act as run_as.
create or replace function agent_internal.exchanged_function(_tool jsonb)
    returns text
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
as $$
begin
    return (
        select format('function %s belongs to role "%s", and was of "%s"; it is called by tool "%s"; if that may be, resume the attachment',
                      _tool ->> 'target', pg_get_userbyid(p.proowner), _tool ->> 'owner', _tool ->> 'name')
          from pg_proc p
         where p.oid = case when _tool ->> 'kind' = 'sql' then to_regprocedure(_tool ->> 'target') end
           and agent_internal.is_safe_owner(p.proowner, (_tool ->> 'owner')::name) is not true
           and _tool ? 'owner');
end;
$$;
comment on function agent_internal.exchanged_function(jsonb) is 'Whose the function of a tool is by now, if it has another owner';

-- Another function that a call of a tool could mean, which leaves out arguments that have defaults; NULL: none.
create or replace function agent_internal.ambiguous_function(_tool jsonb, _given text[])
    returns regprocedure
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
as $$
begin
    return (
        select o.oid
          from pg_proc p
               join pg_proc o on o.proname = p.proname and o.pronamespace = p.pronamespace and o.oid <> p.oid
               cross join lateral (select agent_internal.argument_names(p.oid), agent_internal.argument_names(o.oid)) as n (own, other)
         where p.oid = to_regprocedure(_tool ->> 'target') and cardinality(_given) < p.pronargs
           and not exists (select from unnest(_given) g
                            where (p.proargtypes::oid[])[array_position(n.own, g) - 1]
                                  is distinct from (o.proargtypes::oid[])[array_position(n.other, g) - 1])
           and n.other[1 : o.pronargs - o.pronargdefaults] <@ _given
         order by o.oid
         limit 1);
end;
$$;
comment on function agent_internal.ambiguous_function(jsonb, text[]) is 'Another function that a call of a tool could mean';
