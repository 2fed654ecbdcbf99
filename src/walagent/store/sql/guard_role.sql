-- Reasons why the current role must not run untrusted SQL; no rows if there are none.
with recursive me (oid) as (
    -- The role itself, and those whose rights it has or can assume.
    select oid from pg_roles where rolname = current_user
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
    select 2, format('%s is a member of %s', current_user, r.rolname), null
      from me join pg_roles r using (oid)
     where r.rolname in ('pg_write_all_data', 'pg_write_server_files', 'pg_read_server_files', 'pg_execute_server_program',
                         'pg_signal_backend', 'pg_maintain', 'pg_database_owner', 'pg_create_subscription', 'pg_checkpoint')
    union all
    select 3, format('%s owns %s', current_user, c.oid::regclass), null
      from pg_class c where c.relowner in (select oid from me) and c.relnamespace in (select oid from ours)
    union all
    select 3, format('%s owns function %s', current_user, p.oid::regprocedure), null
      from pg_proc p join ours o on o.oid = p.pronamespace
     where p.proowner in (select oid from me) and o.nspname <> 'agent_call'  -- trampolines
    union all
    select 3, format('%s owns schema %I', current_user, o.nspname), null
      from ours o join pg_namespace n using (oid) where n.nspowner in (select oid from me)
    union all
    select 3, format('%s owns the database', current_user), null
      from pg_database d where d.datname = current_database() and d.datdba in (select oid from me)
    union all
    select 4, format('%s can write to %s', current_user, c.oid::regclass), null
      from pg_class c
     where c.relkind in ('r', 'p', 'v', 'f') and c.relnamespace in (select oid from ours)
       and (has_table_privilege(c.oid, 'insert, update, delete, truncate')
            or has_any_column_privilege(c.oid, 'insert, update'))
    union all
    select 4, format('%s has %s on %s', current_user, upper(p.privilege), c.oid::regclass), null
      from pg_class c cross join (values ('trigger'), ('maintain')) as p (privilege)
     where c.relkind in ('r', 'p', 'v', 'm', 'f') and c.relnamespace in (select oid from ours)
       and case when p.privilege <> 'maintain' or current_setting('server_version_num')::integer >= 170000
                then has_table_privilege(c.oid, p.privilege) end
    union all
    select 4, format('%s can advance sequence %s', current_user, c.oid::regclass), null
      from pg_class c
     where c.relnamespace in (select oid from ours)
       and case when c.relkind = 'S' then has_sequence_privilege(c.oid, 'usage, update') end
    union all
    select 4, format('%s has USAGE on foreign server %I', current_user, s.srvname), null
      from pg_foreign_server s where has_server_privilege(s.oid, 'usage')
    union all
    select 5, format('%s has CREATE on schema %I', current_user, o.nspname),
           case when has_schema_privilege('public', o.oid, 'create')
                then format('revoke create on schema %I from public; -- if no role relies on it', o.nspname) end
      from ours o where has_schema_privilege(o.oid, 'create')
    union all
    select 5, format('%s has CREATE on the database', current_user), null
     where has_database_privilege(current_database(), 'create')
    union all
    select 6, format('%s lacks TEMPORARY on the database, which the analysis of statements requires', current_user),
           format('grant temporary on database %I to %I;', current_database(), current_user)
     where not has_database_privilege(current_database(), 'temporary') and not pg_is_in_recovery()
)
-- No fix revokes anything from the role: somebody might use it.
select r.reason, coalesce(r.fix, format('use a dedicated role: create role analyst; grant usage on schema public to analyst;'
                                        ' grant select on all tables in schema public to analyst; grant analyst to %I;', session_user))
  from reasons r order by r.rank, r.reason limit 3
