-- The OIDs of tables by name; for an unknown name, a suggestion.
select t.name,
       to_regclass(t.name)::oid::bigint,
       case when to_regclass(t.name) is null
            then agent_internal.suggest(t.name, (select array_agg(c.relname::text)
                                          from pg_catalog.pg_class c
                                         where c.relkind in ('r', 'p') and pg_catalog.pg_table_is_visible(c.oid)
                                           and c.relnamespace <> 'pg_catalog'::regnamespace)) end
  from unnest(%(names)s::text[]) as t (name)
