-- The row that a run has seen is shown to who could read it in its table, and to who decides on calls for it.

-- The columns of each attachment's table that the caller's own login can read, by attachment; NULL: it sees all changes.
create function agent_internal.readable()
    returns jsonb
    language plpgsql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _me constant record := agent_internal.identity();
begin
    if _me.named then
        if exists (select from agent.role_grant g
                    where g.tenant = _me.tenant and g.principal = _me.principal and g.role in ('approver', 'admin')
                      and (g.expires_at is null or g.expires_at > agent_internal.now())) then
            return null;
        end if;
    elsif has_function_privilege(session_user, 'agent.approve(bigint)', 'execute')
          or has_table_privilege(session_user, 'agent.run', 'insert') then  -- who executes runs can become each agent's role
        return null;
    end if;
    return (
        select coalesce(jsonb_object_agg(a.id, array(
                   select t.attname::text from pg_attribute t
                    where t.attrelid = c.oid and t.attnum > 0 and not t.attisdropped
                      and has_column_privilege(l.oid, c.oid, t.attnum, 'select'))), '{}')
          from agent.attachment a
               join pg_class c on c.oid = a.relation
               join pg_roles l on l.rolname = agent_internal.login_of(_me.tenant, _me.principal)
         where (a.tenant = _me.tenant or agent_internal.all_tenants())
           and has_schema_privilege(l.oid, c.relnamespace, 'usage')
           -- A policy cannot judge a row of the past.
           and (not c.relrowsecurity or l.rolsuper or l.rolbypassrls
                or (not c.relforcerowsecurity and pg_has_role(l.oid, c.relowner, 'usage'))));
end;
$$;
comment on function agent_internal.readable() is 'The columns that the caller can read of each attachment''s table; NULL: all changes';

-- A change as who can read these columns sees it; hidden: how many columns it has beside them.
create function agent_internal.shown(_change jsonb, _attachment bigint, _readable jsonb)
    returns jsonb
    language sql
    immutable
    return case when _readable is null or not _change ?| '{new,old}' then _change
                else _change - '{new,old,truncated,unchanged}'::text[] || jsonb_build_object(
                    'new', (select jsonb_object_agg(e.key, e.value) from jsonb_each(nullif(_change -> 'new', 'null')) e
                             where _readable -> _attachment::text ? e.key),
                    'old', (select jsonb_object_agg(e.key, e.value) from jsonb_each(nullif(_change -> 'old', 'null')) e
                             where _readable -> _attachment::text ? e.key),
                    'hidden', (select count(*) from (
                                   select k from jsonb_object_keys(coalesce(nullif(_change -> 'new', 'null'), '{}')) k
                                   union
                                   select k from jsonb_object_keys(coalesce(nullif(_change -> 'old', 'null'), '{}')) k) n
                                where (_readable -> _attachment::text ? k) is not true)) end;
comment on function agent_internal.shown(jsonb, bigint, jsonb) is 'A change without the columns that its reader cannot read in its table';

revoke all on function agent_internal.readable(), agent_internal.shown(jsonb, bigint, jsonb) from public;
select agent_internal.permit(c, 'execute on function agent_internal.readable(), agent_internal.shown(jsonb, bigint, jsonb)')
  from unnest('{runner, viewer, asker, member}'::text[]) c;
