-- The roles that have a capability, by a privilege that only its function grants.
create or replace function agent_internal.holders(_capability text)
    returns setof name
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select distinct r.rolname
      from pg_roles r
           join (select 'runner', x.grantee, x.grantor from pg_class c, aclexplode(c.relacl) x
                  where c.oid = 'agent.run'::regclass and x.privilege_type = 'UPDATE'
                 union all
                 select 'viewer', x.grantee, x.grantor from pg_class c, aclexplode(c.relacl) x
                  where c.oid = 'agent.run'::regclass and x.privilege_type = 'SELECT'
                 union all
                 select 'approver', x.grantee, x.grantor from pg_attribute a, aclexplode(a.attacl) x
                  where a.attrelid = 'agent.approval'::regclass and a.attname = 'state' and x.privilege_type = 'UPDATE'
                 union all
                 select 'developer', x.grantee, x.grantor from pg_class c, aclexplode(c.relacl) x
                  where c.oid = 'agent.attachment'::regclass and x.privilege_type = 'INSERT'
                 union all
                 select 'asker', x.grantee, x.grantor from pg_proc p, aclexplode(p.proacl) x
                  where p.oid = 'agent_internal.ask(text, text, jsonb)'::regprocedure
                 union all
                 select 'member', x.grantee, x.grantor from pg_proc p, aclexplode(p.proacl) x
                  where p.oid = 'agent.act_as(text)'::regprocedure
                ) as h (capability, grantee, grantor) on h.grantee = r.oid and h.grantee <> h.grantor
     where h.capability = _capability
$$;
comment on function agent_internal.holders(text) is 'Roles that have a capability';

create or replace function agent_internal.grant_capability(_capability text, _role name)
    returns void
    language plpgsql
as $$
declare
    _statement text;
begin
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
end;
$$;
comment on function agent_internal.grant_capability(text, name) is 'Grant a role the privileges of a capability';

-- The role of the daemon.  It reads and writes runs, owns nothing, decides no approvals and cannot change the definition
-- of an attachment.  It must also be a member of every run_as role: grant app to walagent_runner.
create or replace function agent.grant_runner(role name)
    returns void
    language sql
as $$ select agent_internal.grant_capability('runner', role) $$;
comment on function agent.grant_runner(name) is 'Allow a role to run the daemon';

create or replace function agent.grant_viewer(role name)
    returns void
    language sql
as $$ select agent_internal.grant_capability('viewer', role) $$;
comment on function agent.grant_viewer(name) is 'Allow a role to read agents, runs and steps, with the row data in them';

create or replace function agent.grant_approver(role name)
    returns void
    language sql
as $$ select agent_internal.grant_capability(c, role) from unnest('{viewer,approver}'::text[]) c $$;
comment on function agent.grant_approver(name) is 'Allow a role to approve and reject tool calls, and to cancel, retry and resolve runs';

-- To attach requires no privilege on runs: only on the definitions, and on the tables.
create or replace function agent.grant_developer(role name)
    returns void
    language sql
as $$ select agent_internal.grant_capability('developer', role) $$;
comment on function agent.grant_developer(name) is 'Allow a role to attach agents to tables that it can read';

-- A login that only asks: it holds the runs of its own questions, and sees of runs, steps and approvals what a claim
-- returns.
create or replace function agent.grant_asker(role name)
    returns void
    language sql
as $$ select agent_internal.grant_capability('asker', role) $$;
comment on function agent.grant_asker(name) is 'Allow a role to ask questions (walagent ask, chat, the library) and to read its own sessions';

-- A login of people, or of an application that acts for principals with their tokens.
create or replace function agent.grant_member(role name)
    returns void
    language sql
as $$ select agent_internal.grant_capability('member', role) $$;
comment on function agent.grant_member(name) is 'Allow a role to take part in threads, for itself or for principals whose tokens it has';

-- Give the functions with the rights of the owner of the schema to a role that row-level security applies to, if it does
-- not apply to the owner.
create or replace function agent_internal.restrict_definers()
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _owner    name;
    _function regprocedure;
begin
    select r.rolname into _owner
      from pg_namespace n join pg_roles r on r.oid = n.nspowner
     where n.nspname = 'agent_internal' and r.rolsuper;
    if _owner is null then
        return;
    end if;
    if not exists (select from pg_roles where rolname = 'walagent_definer') then
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
    for _function in
        select p.oid from pg_proc p join pg_roles r on r.oid = p.proowner
         where p.pronamespace in ('agent'::regnamespace, 'agent_internal'::regnamespace)
           and p.prosecdef and r.rolname = _owner
           and p.oid not in (select f.function from agent_internal.owner_function f)
    loop
        execute format('alter function %s owner to walagent_definer', _function);
    end loop;
    for _function in
        select p.oid from pg_proc p join agent_internal.owner_function f on f.function = p.oid
         where p.proowner = to_regrole('walagent_definer')
    loop
        execute format('alter function %s owner to %I', _function, _owner);
    end loop;
end;
$$;
comment on function agent_internal.restrict_definers() is 'Let row-level security apply to functions with the rights of the owner';
