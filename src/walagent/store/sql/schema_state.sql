-- What the database has of walagent: whether the schema agent is its own, its schemas and publications, the tables that do not
-- exist, and whether the list of code can be read.
select exists (select from pg_catalog.pg_namespace n
                where n.nspname = 'agent'
                  and (pg_catalog.obj_description(n.oid, 'pg_namespace') like 'walagent: %%'
                       or exists (select from pg_catalog.pg_class c
                                   where c.relnamespace = n.oid and c.relname in ('attachment', 'migration')))),
       array(select pg_catalog.format('schema %%s', n.nspname) from pg_catalog.pg_namespace n
              where n.nspname in ('agent', 'agent_internal', 'agent_call', 'agent_signed')
             union all
             select pg_catalog.format('publication %%s', p.pubname) from pg_catalog.pg_publication p
              where p.pubname in ('walagent', 'walagent_inserts')
              order by 1),
       array(select t from pg_catalog.unnest(%(tables)s::text[]) t
              where not exists (select from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
                                 where n.nspname = pg_catalog.split_part(t, '.', 1) and c.relname = pg_catalog.split_part(t, '.', 2))
              order by 1),
       exists (select from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
                where n.nspname = 'agent_internal' and c.relname = 'code_object'
                  and pg_catalog.has_schema_privilege(n.oid, 'usage') and pg_catalog.has_table_privilege(c.oid, 'select'))
