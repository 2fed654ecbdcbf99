-- Whether the schema "agent" has objects, whether walagent created it, and whether an unreleased version did.
select exists (select from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
                where n.nspname = 'agent'),
       to_regclass('agent_internal.migration') is not null,
       to_regclass('agent.migration') is not null
       or to_regclass('agent_internal.migration') is not null
          and not exists (select from pg_catalog.pg_attribute a
                           where a.attrelid = to_regclass('agent_internal.migration') and a.attname = 'version')
