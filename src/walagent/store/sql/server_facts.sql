-- Facts about the server, the database and the current role, in the server's units.  pg_settings omits
-- what the role cannot see, where current_setting() would raise an error.
select current_setting('server_version_num')::integer as version,
       current_database() as database,
       current_user::text as role,
       pg_is_in_recovery() as in_recovery,
       current_setting('wal_level') as wal_level,
       current_setting('max_replication_slots')::integer as max_slots,
       (select count(*) from pg_replication_slots)::integer as slots,
       current_setting('max_wal_senders')::integer as max_senders,
       (select count(*) from pg_stat_activity where backend_type = 'walsender')::integer as senders,
       (select setting::bigint from pg_settings where name = 'max_slot_wal_keep_size') as keep_megabytes,
       coalesce((select setting from pg_settings where name = 'output_plugin_libraries'), '') as plugin_libraries,
       (select setting::bigint from pg_settings where name = 'idle_replication_slot_timeout') as idle_timeout,
       current_setting('max_connections')::integer as max_connections,
       extract(epoch from clock_timestamp())::float8 as clock,
       (select rolsuper from pg_roles where rolname = current_user) as superuser,
       exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
                where n.nspname = 'agent' and c.relname = 'run') as migrated,
       (select setting from pg_settings where name = 'synchronized_standby_slots') as standby_slots,
       current_setting('synchronous_standby_names') as synchronous_names,
       messages.functions as message_functions,
       messages.anyone as anyone_may_send,
       messages.role as role_may_send
  from (select string_agg(p.oid::regprocedure::text, ', ' order by p.oid) as functions,
               bool_or(has_function_privilege('public', p.oid, 'execute')) as anyone,
               bool_and(has_function_privilege(p.oid, 'execute')) as role
          from pg_proc p
         where p.pronamespace = 'pg_catalog'::regnamespace and p.proname = 'pg_logical_emit_message') messages
