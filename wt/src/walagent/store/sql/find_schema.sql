-- Is there anything in a schema of our name, and is it ours?  An empty one is as good as none.
select exists (select from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
                where n.nspname = 'agent'),
       to_regclass('agent.migration') is not null
