-- Live sync: what readers publish for shapes.

-- Tables of walagent can be requested, too: shapes of queries follow them.  agent.attachment is always published.
create or replace function agent_internal.tables_named(_schemas text[], _tables text[], _inserts_only boolean[], _durable boolean[])
    returns table (relation regclass, inserts_only boolean, durable boolean)
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select c.oid::regclass, bool_and(w.inserts_only), bool_or(w.durable)
      from unnest(_schemas, _tables, _inserts_only, _durable) as w (schema, name, inserts_only, durable)
           join pg_namespace n on n.nspname = w.schema
           join pg_class c on c.relnamespace = n.oid and c.relname = w.name
     where c.relkind in ('r', 'p') and c.relpersistence = 'p'
       and n.nspname !~ '^(pg_.*|information_schema|agent_internal)$'
       and c.oid <> 'agent.attachment'::regclass
     group by c.oid
$$;
