-- The roles that were given a capability and have it still: nobody revoked the privilege that marks it.  A role that was granted
-- that privilege alone has no capability.
create or replace function agent_internal.present_holders()
    returns setof agent_internal.holder
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select h.*
      from agent_internal.holder h join pg_roles r on r.rolname = h.role
     where case h.capability
               when 'runner' then has_table_privilege(r.oid, 'agent.run', 'update')
               when 'viewer' then has_table_privilege(r.oid, 'agent.run', 'select')
               when 'approver' then has_column_privilege(r.oid, 'agent.approval', 'state', 'update')
               when 'developer' then has_column_privilege(r.oid, 'agent.attachment', 'name', 'insert')
               when 'asker' then has_function_privilege(r.oid, 'agent_internal.ask(text, text, jsonb)', 'execute')
               when 'member' then has_function_privilege(r.oid, 'agent.act_as(text)', 'execute')
           end
$$;
comment on function agent_internal.present_holders() is 'Roles that were given a capability and have it still';

create or replace function agent_internal.grant_capability(_capability text, _role name)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _statement text;
    _stranger  record;
begin
    -- The key is all that it takes to act as anybody.
    for _stranger in select m.* from agent_internal.strange_members(_role, true) m where _capability = 'runner' loop
        raise exception 'role "%" can act as "%", which would run the daemon', _stranger.member, _role
            using errcode = '42501', hint = format('As a superuser, run %s; or use a new role.', _stranger.statement);
    end loop;
    perform agent_internal.lock_grants();
    execute format('grant usage on schema agent, agent_internal to %I', _role);
    for _statement in
        select format('grant %s on %s %s to %I', p.privilege, p.kind, string_agg(p.object, ', ' order by p.object), _role)
          from agent_internal.privilege p
         where _capability = any (p.capabilities)
         group by p.kind, p.privilege
         order by p.kind, p.privilege
    loop
        execute _statement;
    end loop;
    insert into agent_internal.holder (capability, role) values (_capability, _role) on conflict do nothing;
end;
$$;
comment on function agent_internal.grant_capability(text, name) is 'Grant a role the privileges of a capability';

-- The role of the daemon.  It reads and writes runs, owns nothing, decides no approvals and cannot change the definition
-- of an attachment.  It must also be a member of every run_as role: grant app to walagent_runner.
create or replace function agent.grant_runner(role name)
    returns void
    language sql
    set search_path = pg_catalog, pg_temp
as $$ select agent_internal.grant_capability('runner', role) $$;
comment on function agent.grant_runner(name) is 'Allow a role to run the daemon';

create or replace function agent.grant_viewer(role name)
    returns void
    language sql
    set search_path = pg_catalog, pg_temp
as $$ select agent_internal.grant_capability('viewer', role) $$;
comment on function agent.grant_viewer(name) is 'Allow a role to read agents, runs and steps, with the row data in them';

create or replace function agent.grant_approver(role name)
    returns void
    language sql
    set search_path = pg_catalog, pg_temp
as $$ select agent_internal.grant_capability(c, role) from unnest('{viewer,approver}'::text[]) c $$;
comment on function agent.grant_approver(name) is 'Allow a role to approve and reject tool calls, and to cancel, retry and resolve runs';

-- To attach requires no privilege on runs: only on the definitions, and on the tables.
create or replace function agent.grant_developer(role name)
    returns void
    language sql
    set search_path = pg_catalog, pg_temp
as $$ select agent_internal.grant_capability('developer', role) $$;
comment on function agent.grant_developer(name) is 'Allow a role to attach agents to tables that it can read';

-- A login that only asks: it holds the runs of its own questions, and sees of runs, steps and approvals what a claim
-- returns.
create or replace function agent.grant_asker(role name)
    returns void
    language sql
    set search_path = pg_catalog, pg_temp
as $$ select agent_internal.grant_capability('asker', role) $$;
comment on function agent.grant_asker(name) is 'Allow a role to ask questions (walagent ask, chat, the library) and to read its own sessions';

-- A login of people, or of an application that acts for principals with their tokens.
create or replace function agent.grant_member(role name)
    returns void
    language sql
    set search_path = pg_catalog, pg_temp
as $$ select agent_internal.grant_capability('member', role) $$;
comment on function agent.grant_member(name) is 'Allow a role to take part in threads, for itself or for principals whose tokens it has';

-- The capabilities of the login, also those of roles whose rights it has.
create or replace function agent_internal.own_capabilities()
    returns text[]
    language sql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
    select array(select distinct h.capability from agent_internal.present_holders() h
                  where pg_has_role(session_user, h.role, 'usage') order by 1)
$$;
comment on function agent_internal.own_capabilities() is 'The capabilities of the login';

-- What would give a login the right to an object that it was denied, by the name that PostgreSQL's message has.
--
-- Returns owner: of the schema; NULL: the object is not walagent's.  capabilities: with a right on it that the login lacks.
create or replace function agent_internal.denied_right(_kind text, _name text, _login name, out owner name, out capabilities text[])
    language sql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
    set standard_conforming_strings = on
as $$
    select (select pg_get_userbyid(n.nspowner) from pg_namespace n
             where n.nspname = 'agent_internal'
               and (exists (select from pg_class c where c.relname = _name and c.relnamespace in ('agent'::regnamespace, n.oid))
                    or exists (select from pg_proc c where c.proname = _name and c.pronamespace in ('agent'::regnamespace, n.oid)))),
           array(select distinct c
                   from agent_internal.privilege p cross join unnest(p.capabilities) c
                  where p.kind = _kind and substring(p.object from '^[a-z_]+\.([a-z_0-9]+)') = _name
                    and exists (select from regexp_split_to_table(regexp_replace(p.privilege, '\([^)]*\)', '', 'g'), ' *, *') v
                                 where case p.kind when 'table' then not has_table_privilege(_login, p.object, v)
                                                   when 'sequence' then not has_sequence_privilege(_login, p.object, v)
                                                   when 'function' then not has_function_privilege(_login, p.object, v) end)
                  order by c)
$$;
comment on function agent_internal.denied_right(text, text, name) is 'What would give a login the right to an object that it was denied';

-- The functions of walagent that belong to the wrong role: after a restore without owners, REASSIGN OWNED, or ALTER FUNCTION.
--
-- They belong to the owner of the schema; if row-level security does not apply to it, those with the rights of their owner
-- to walagent_definer.  Otherwise they read and write all tenants, or their owner can replace what the daemon calls.
create or replace function agent_internal.misowned_functions()
    returns table (function regprocedure, owner name, wanted name)
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select p.oid, pg_get_userbyid(p.proowner), w.wanted
      from pg_proc p
           join pg_namespace n on n.oid = p.pronamespace
           cross join (select r.oid, r.rolname, r.rolsuper from pg_namespace i join pg_roles r on r.oid = i.nspowner
                        where i.nspname = 'agent_internal') o
           cross join lateral (
               select case when o.rolsuper and p.prosecdef and n.nspname <> 'agent_signed'
                                and p.oid not in (select f.function from agent_internal.owner_function f)
                           then 'walagent_definer' else o.rolname end) as w (wanted)
     where pg_get_userbyid(p.proowner) <> w.wanted
       and (n.nspname in ('agent', 'agent_internal', 'agent_signed')
            and format('function %s', p.oid::regprocedure) in (select c.object from agent_internal.code_object c)
            or n.nspname ~ '^aos_' and n.nspowner = o.oid)  -- walagent database pgagentos
     order by 1
$$;
comment on function agent_internal.misowned_functions() is 'Functions of walagent that belong to the wrong role';

-- Give the functions to the roles that they belong to.  Raises 42501 if the caller may not.
create or replace function agent_internal.restrict_definers()
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _each record;
begin
    if (select r.rolsuper from pg_namespace n join pg_roles r on r.oid = n.nspowner where n.nspname = 'agent_internal') then
        if exists (select from pg_roles where rolname = 'walagent_definer') then
            perform agent_internal.check_own_role('walagent_definer');
        else
            begin
                create role walagent_definer nologin;
            exception when duplicate_object or unique_violation then
                null;  -- another database of the server creates it now
            end;
        end if;
        grant usage on schema agent, agent_internal to walagent_definer;
        grant select, insert, update, delete on all tables in schema agent, agent_internal to walagent_definer;
        grant usage on all sequences in schema agent, agent_internal to walagent_definer;
        grant execute on all functions in schema agent, agent_internal to walagent_definer;
        for _each in select n.nspname as name from pg_namespace n join pg_namespace i on i.nspname = 'agent_internal' and i.nspowner = n.nspowner
                      where n.nspname ~ '^aos_' loop
            execute format('grant usage on schema %I to walagent_definer', _each.name);
            execute format('grant execute on all functions in schema %I to walagent_definer', _each.name);
        end loop;
        if exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
                           join pg_namespace i on i.nspname = 'agent_internal' and i.nspowner = c.relowner and i.nspowner = n.nspowner
                    where n.nspname = 'aos_auth' and c.relname = 'membership' and c.relkind = 'r') then
            grant select, insert, update, delete on aos_auth.membership to walagent_definer;
        end if;
    end if;
    for _each in select * from agent_internal.misowned_functions() loop
        execute format('alter function %s owner to %I', _each.function, _each.wanted);
    end loop;
end;
$$;
comment on function agent_internal.restrict_definers() is 'Let row-level security apply to functions with the rights of the owner';
