-- Reasons why the current role must not run untrusted SQL; no rows if there are none.
with recursive me (oid) as (
    -- The role itself, and the roles whose rights it has or can assume.
    select oid from pg_roles where rolname = current_user
     union
    select m.roleid from me join pg_auth_members m on m.member = me.oid
), ours as (
    select oid from pg_namespace
     where nspname not in ('pg_catalog', 'information_schema') and nspname not like 'pg\_toast%' and nspname not like 'pg\_temp%'
), reasons (rank, reason, fix) as (
    select case attribute when 'SUPERUSER' then 0 else 1 end, format('%s has %s', r.rolname, attribute), 'use a dedicated role: create role analyst login; grant usage on schema public to analyst; grant select on all tables in schema public to analyst;'
      from me join pg_roles r using (oid)
           cross join lateral (values (r.rolsuper, 'SUPERUSER'), (r.rolbypassrls, 'BYPASSRLS'),
                                      (r.rolreplication, 'REPLICATION'), (r.rolcreaterole, 'CREATEROLE'),
                                      (r.rolcreatedb, 'CREATEDB')) as a (given, attribute)
     where given
    union all
    select 2, format('%s is a member of %s', current_user, r.rolname), format('revoke %I from %I;', r.rolname, current_user)
      from me join pg_roles r using (oid)
     where r.rolname in ('pg_write_all_data', 'pg_write_server_files', 'pg_read_server_files', 'pg_execute_server_program',
                         'pg_signal_backend', 'pg_maintain', 'pg_database_owner', 'pg_create_subscription', 'pg_checkpoint')
    union all
    select 3, format('%s owns %s', current_user, c.oid::regclass), format('alter %s %s owner to ...;', case c.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'S' then 'sequence' else 'table' end, c.oid::regclass)
      from pg_class c where c.relowner in (select oid from me) and c.relnamespace in (select oid from ours)
    union all
    select 3, format('%s owns schema %I', current_user, n.nspname), format('alter schema %I owner to ...;', n.nspname)
      from pg_namespace n where n.nspowner in (select oid from me) and n.oid in (select oid from ours)
    union all
    select 3, format('%s owns the database', current_user), 'use a dedicated role: create role analyst login; grant usage on schema public to analyst; grant select on all tables in schema public to analyst;'
      from pg_database d where d.datname = current_database() and d.datdba in (select oid from me)
    union all
    select 4, format('%s can write to %s', current_user, c.oid::regclass),
           format('revoke insert, update, delete, truncate on %s from %I;', c.oid::regclass, current_user)
      from pg_class c
     where c.relkind in ('r', 'p', 'v', 'f') and c.relnamespace in (select oid from ours)
       and (has_table_privilege(c.oid, 'insert, update, delete, truncate')
            or has_any_column_privilege(c.oid, 'insert, update'))
    union all
    select 4, format('%s can advance sequence %s', current_user, c.oid::regclass),
           format('revoke usage, update on sequence %s from %I;', c.oid::regclass, current_user)
      from pg_class c
     where c.relnamespace in (select oid from ours)
       and case when c.relkind = 'S' then has_sequence_privilege(c.oid, 'usage, update') end
    union all
    select 5, format('%s has CREATE on schema %I', current_user, n.nspname),
           format('revoke create on schema %I from public, %I;', n.nspname, current_user)
      from pg_namespace n where n.oid in (select oid from ours) and has_schema_privilege(n.oid, 'create')
    union all
    select 5, format('%s has CREATE on the database', current_user),
           format('revoke create on database %I from %I;', current_database(), current_user)
     where has_database_privilege(current_database(), 'create')
    union all
    select 6, format('%s lacks TEMPORARY on the database, which the analysis of statements requires', current_user),
           format('grant temporary on database %I to %I;', current_database(), current_user)
     where not has_database_privilege(current_database(), 'temporary') and not pg_is_in_recovery()
)
select reason, fix from reasons order by rank, reason limit 3
