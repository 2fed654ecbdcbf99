-- What a role could do beside reading, with a fix that takes nothing from a role in use; no row for a role that can execute the SQL
-- of a model.
--
-- guard/role.py executes the body for the current role, also in databases without this schema.
create or replace function agent_internal.writing_rights(_role name)
    returns table (reason text, fix text)
    language sql
    stable
    set search_path = pg_catalog, pg_temp
    set standard_conforming_strings = on
as $$
    with recursive me (oid) as (
        -- The role itself, and those whose rights it has or can assume.
        select oid from pg_roles where rolname = _role
         union
        select m.roleid from me join pg_auth_members m on m.member = me.oid
    ), ours as (
        select oid, nspname from pg_namespace
         where nspname not in ('pg_catalog', 'information_schema') and nspname not like 'pg\_toast%' and nspname not like 'pg\_temp%'
    ), reasons (rank, reason, fix) as (
        select case attribute when 'SUPERUSER' then 0 else 1 end, format('%s has %s', r.rolname, attribute), null
          from me join pg_roles r using (oid)
               cross join lateral (values (r.rolsuper, 'SUPERUSER'), (r.rolbypassrls, 'BYPASSRLS'),
                                          (r.rolreplication, 'REPLICATION'), (r.rolcreaterole, 'CREATEROLE'),
                                          (r.rolcreatedb, 'CREATEDB')) as a (given, attribute)
         where given
        union all
        select 2, format('%s is a member of %s', _role, r.rolname), null
          from me join pg_roles r using (oid)
         where r.rolname in ('pg_write_all_data', 'pg_write_server_files', 'pg_read_server_files', 'pg_execute_server_program',
                             'pg_signal_backend', 'pg_maintain', 'pg_database_owner', 'pg_create_subscription', 'pg_checkpoint')
        union all
        select 3, format('%s owns %s', _role, c.oid::regclass), null
          from pg_class c where c.relowner in (select oid from me) and c.relnamespace in (select oid from ours)
        union all
        select 3, format('%s owns function %s', _role, p.oid::regprocedure), null
          from pg_proc p join ours o on o.oid = p.pronamespace
         where p.proowner in (select oid from me) and o.nspname <> 'agent_call'  -- trampolines
        union all
        select 3, format('%s owns schema %I', _role, o.nspname), null
          from ours o join pg_namespace n using (oid) where n.nspowner in (select oid from me)
        union all
        select 3, format('%s owns the database', _role), null
          from pg_database d where d.datname = current_database() and d.datdba in (select oid from me)
        union all
        select 4, format('%s can write to %s', _role, c.oid::regclass),
               format('revoke insert, update, delete, truncate on %s from %I', c.oid::regclass, _role)
          from pg_class c
         where c.relkind in ('r', 'p', 'v', 'f') and c.relnamespace in (select oid from ours)
           and (has_table_privilege(_role, c.oid, 'insert, update, delete, truncate')
                or has_any_column_privilege(_role, c.oid, 'insert, update'))
        union all
        select 4, format('%s has %s on %s', _role, upper(p.privilege), c.oid::regclass),
               format('revoke %s on %s from %I', p.privilege, c.oid::regclass, _role)
          from pg_class c cross join (values ('trigger'), ('maintain')) as p (privilege)
         where c.relkind in ('r', 'p', 'v', 'm', 'f') and c.relnamespace in (select oid from ours)
           and case when p.privilege <> 'maintain' or current_setting('server_version_num')::integer >= 170000
                    then has_table_privilege(_role, c.oid, p.privilege) end
        union all
        select 4, format('%s can advance sequence %s', _role, c.oid::regclass),
               format('revoke usage, update on sequence %s from %I', c.oid::regclass, _role)
          from pg_class c
         where c.relnamespace in (select oid from ours)
           and case when c.relkind = 'S' then has_sequence_privilege(_role, c.oid, 'usage, update') end
        union all
        select 4, format('%s has USAGE on foreign server %I', _role, s.srvname), null
          from pg_foreign_server s where has_server_privilege(_role, s.oid, 'usage')
        union all
        select 5, format('%s has CREATE on schema %I', _role, o.nspname),
               case when has_schema_privilege('public', o.oid, 'create')
                    then format('revoke create on schema %I from public; -- if no role relies on it', o.nspname) end
          from ours o where has_schema_privilege(_role, o.oid, 'create')
        union all
        select 5, format('%s has CREATE on the database', _role), null
         where has_database_privilege(_role, current_database(), 'create')
        union all
        select 6, format('%s lacks TEMPORARY on the database, which the analysis of statements requires', _role),
               format('grant temporary on database %I to %I;', current_database(), _role)
         where not has_database_privilege(_role, current_database(), 'temporary') and not pg_is_in_recovery()
    )
    -- Nothing is revoked from a role that somebody uses: one with a login, or with several members.
    select r.reason,
           case when r.fix is null or r.rank = 4 and u.in_use
                then format('use a dedicated role: create role analyst; grant usage on schema public to analyst;'
                            ' grant select on all tables in schema public to analyst; grant analyst to %I;', session_user)
                else r.fix end
      from reasons r
           cross join (select bool_or(p.rolcanlogin) or count(m.member) > 1 as in_use
                         from pg_roles p left join pg_auth_members m on m.roleid = p.oid
                        where p.rolname = _role) u
      order by r.rank, r.reason
$$;
comment on function agent_internal.writing_rights(name) is 'What a role could do beside reading, with a fix; no row for a role that can execute the SQL of a model';
