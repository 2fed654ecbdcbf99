-- The session of an own worker: whose code may be executed there.
--
-- Tools and policies have the rights of their roles, but the session is a person's or a program's: settings, prepared statements and
-- temporary objects that they leave are found by its next statement, and what they defer is executed at the commit.  PostgreSQL tells
-- too little of these to take them back, so it is asked whose code it can be.

-- Somebody whose code can be reached, who may not act as the login of this session: the role, and what is theirs; NULL: nobody.
--
-- That is who owns what can have code, or may create it: it can be gone again when one looks; as whom a policy of the tenant is
-- evaluated, and who may write the condition of a trigger.
create or replace function agent_internal.stranger_of_session(out stranger name, out what text)
    language sql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
    set quote_all_identifiers = off
as $$
    with found (oid, what, n) as (
        select d.refobjid, format('who owns %s', pg_describe_object(d.classid, d.objid, 0)), row_number() over (order by d.classid, d.objid)
          from pg_shdepend d
               cross join lateral pg_identify_object(d.classid, d.objid, 0) i
         where d.dbid = (select oid from pg_database where datname = current_database())
           and d.refclassid = 'pg_authid'::regclass and d.deptype = 'o'
           and d.classid not in ('pg_namespace'::regclass, 'pg_largeobject'::regclass)
           and i.type <> 'sequence' and coalesce(i.schema, '') not in ('agent', 'agent_internal', 'agent_signed', 'agent_call')
           and starts_with(i.schema, 'pg_temp') is not true
           -- walagent database pgagentos, whose functions are walagent's as those of its own schemas are
           and (d.refobjid = to_regrole('walagent_definer')::oid
                    and exists (select from pg_namespace n join pg_namespace a on a.nspname = 'agent_internal' and a.nspowner = n.nspowner
                                 where n.nspname = i.schema and n.nspname ~ '^aos_')) is not true
        union all
        select r.oid, format('as whom policy "%s" is evaluated', p.name), 0
          from agent.policy p join pg_roles r on r.rolname = p.run_as
         where p.tenant = agent.current_tenant() and p.enabled and (p.condition is not null or p.expression is not null)
        union all
        select a.grantee, format('who may create triggers on %s, as %s', c.oid::regclass, t.tgname), 0
          from pg_trigger t
               join pg_class c on c.oid = t.tgrelid
               cross join lateral aclexplode(c.relacl) a
         where t.tgqual is not null and a.privilege_type = 'TRIGGER' and a.grantee <> c.relowner
        union all
        -- The function of such a trigger stands in a schema that its owner makes for it.
        select a.grantee, format('who may create triggers on %s, and schemas', c.oid::regclass), 0
          from pg_class c cross join lateral aclexplode(c.relacl) a
         where a.privilege_type = 'TRIGGER' and a.grantee <> c.relowner
           and has_database_privilege(a.grantee, current_database(), 'create')
           and c.relnamespace not in (select oid from pg_namespace where nspname in ('agent', 'agent_internal'))
        union all
        select a.grantee, format('who may create functions in schema %I', n.nspname), 0
          from pg_namespace n cross join lateral aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) a
         where a.privilege_type = 'CREATE'
           and n.nspname not in ('agent', 'agent_internal', 'agent_signed', 'agent_call', 'information_schema') and n.nspname !~ '^pg_'
    )
    select coalesce(o.rolname, 'public'), f.what
      from found f left join pg_roles o on o.oid = f.oid
     where o.oid is distinct from (select n.nspowner from pg_namespace n where n.nspname = 'agent_internal')
       and agent_internal.is_safe_owner(f.oid, session_user) is not true
     order by f.n
     limit 1
$$;
comment on function agent_internal.stranger_of_session() is 'Somebody whose code can be reached and who may not act as the login of the session';

-- Refuse to execute tools and policies in this session if code of strangers can be reached.
--
-- Args: _executed: whether they were executed since they were asked for last.
-- Raises WA027.
create or replace function agent_internal.refuse_strangers(_executed boolean default false)
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _found record;
begin
    select * into _found from agent_internal.stranger_of_session();
    if _found.stranger is not null then
        raise exception 'SQL tools and policies are not carried out in a session of "%": it is not that of "%", %',
            session_user, _found.stranger, _found.what
            using errcode = 'WA027', constraint = case when _executed then 'used_session' else 'own_session' end,
                  hint = format('Let a worker of walagent take the turns, or, if %1$I may do all that %2$I may: grant %2$I to %1$I;',
                                _found.stranger, session_user);
    end if;
end;
$$;
comment on function agent_internal.refuse_strangers(boolean) is 'Refuse to execute code in a session where that of somebody else could be reached';

-- End this session after an error, if code of a stranger can have been executed in it: no error takes back what it has prepared,
-- locked or opened.
--
-- An error of walagent has the state WA027, and what code of others raises with that state is the result of a tool.
create or replace function agent_internal.end_used_session(_state text, _constraint text, _context text)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _found record;
begin
    if _state = 'WA027' and _constraint is distinct from 'used_session'
       or _state <> 'WA027' and coalesce(_context, '') !~ 'agent_internal[.](make_call|record_call)[(]' then
        return;
    end if;
    select * into _found from agent_internal.stranger_of_session();
    if _found.stranger is null then
        return;
    end if;
    raise warning 'the session ends: code of "%" can have left something in it, %', _found.stranger, _found.what;
    perform pg_terminate_backend(pg_backend_pid());
    perform pg_sleep(10);  -- until the signal arrives
exception when insufficient_privilege then
    raise warning 'could not end the session: end it yourself, for its role is not "%"', session_user;
end;
$$;
comment on function agent_internal.end_used_session(text, text, text) is 'End a session in which code of a stranger can have been executed';
