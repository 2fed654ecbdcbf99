-- Common values of columns, from the statistics of ANALYZE that the current role can read: none for
-- tables with row level security.
--
-- One row for each column with statistics; its values are NULL if they are many, or if each occurs
-- only once.
select distinct on (named.relation, wanted.name)
       named.relation, wanted.name,
       case when distinct_values <= %(distinct)s then array(
           select value from unnest(s.most_common_vals::text::text[], s.most_common_freqs) as common (value, part)
            where part * c.reltuples >= 1.5
            order by part desc, value limit %(values)s) end
  from unnest(%(schemas)s::text[], %(tables)s::text[], %(columns)s::text[]) with ordinality as wanted (schema, relation_name, name, ord)
       cross join lateral (select concat_ws('.', wanted.schema, wanted.relation_name)) as named (relation)
       join pg_stats s on s.schemaname = wanted.schema and s.tablename = wanted.relation_name and s.attname = wanted.name
       join pg_namespace n on n.nspname = wanted.schema
       join pg_class c on c.relnamespace = n.oid and c.relname = wanted.relation_name
       cross join lateral (select case when s.n_distinct < 0 then -s.n_distinct * c.reltuples else s.n_distinct end) as d (distinct_values)
 order by named.relation, wanted.name, s.inherited desc
