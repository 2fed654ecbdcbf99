-- The OIDs of tables by name; for an unknown name, a suggestion: the table of another schema, or a similar name.
select t.name,
       to_regclass(t.name)::oid::bigint,
       case when to_regclass(t.name) is null
            then coalesce((select format('Did you mean "%%s"?', c.oid::regclass) from pg_catalog.pg_class c
                            where c.relkind in ('r', 'p') and c.relname = t.name and not pg_catalog.pg_table_is_visible(c.oid)
                            order by c.oid limit 1),
                          agent_internal.suggest(t.name, (select array_agg(c.relname::text)
                                          from pg_catalog.pg_class c
                                         where c.relkind in ('r', 'p') and pg_catalog.pg_table_is_visible(c.oid)
                                           and c.relnamespace <> 'pg_catalog'::regnamespace))) end
  from unnest(%(names)s::text[]) as t (name)
