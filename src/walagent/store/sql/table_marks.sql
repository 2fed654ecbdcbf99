-- A mark of each table: see sync/table_watch.py.
with recursive wanted as (
    select c.oid, n.nspname, c.relname
      from unnest(%(schemas)s::text[], %(names)s::text[]) as w (schema, name)
           join pg_namespace n on n.nspname = w.schema
           join pg_class c on c.relnamespace = n.oid and c.relname = w.name
), part (root, oid, parent) as (
    select oid, oid, 0::oid from wanted
    union all
    select p.root, i.inhrelid, i.inhparent
      from part p join pg_class c on c.oid = p.oid and c.relkind = 'p' join pg_inherits i on i.inhparent = p.oid
     where not i.inhdetachpending
)
select w.nspname, w.relname, md5(concat_ws(E'\n',
           (select string_agg(concat_ws(' ', p.oid, p.parent, c.relfilenode, c.relkind, c.relpersistence), ',' order by p.oid, p.parent)
              from part p join pg_class c on c.oid = p.oid where p.root = w.oid),
           (select concat_ws(' ', c.relowner, c.relrowsecurity, c.relforcerowsecurity, c.relreplident,
                             has_table_privilege(c.oid, 'select'), has_schema_privilege(c.relnamespace, 'usage'))
              from pg_class c where c.oid = w.oid),
           (select string_agg(concat_ws(' ', a.attnum, a.attname, a.atttypid, a.atttypmod, a.attnotnull, a.attgenerated, a.attcollation,
                                        has_column_privilege(a.attrelid, a.attnum, 'select')), ',' order by a.attnum)
              from pg_attribute a where a.attrelid = w.oid and a.attnum > 0 and not a.attisdropped),
           (select string_agg(concat_ws(' ', i.indexrelid, i.indisprimary, i.indisreplident, i.indkey), ',' order by i.indexrelid)
              from pg_index i where i.indrelid = w.oid and (i.indisprimary or i.indisreplident)),
           -- Whose labels or attributes are part of the texts of rows.
           (select string_agg(concat_ws(' ', e.enumtypid, e.oid, e.enumlabel), ',' order by e.oid)
              from pg_enum e
             where e.enumtypid in (select unnest(array[t.oid, t.typelem]) from pg_attribute a join pg_type t on t.oid = a.atttypid
                                    where a.attrelid = w.oid and a.attnum > 0 and not a.attisdropped)),
           (select string_agg(concat_ws(' ', f.attrelid, f.attnum, f.atttypid, f.attisdropped), ',' order by f.attrelid, f.attnum)
              from pg_attribute a join pg_type t on t.oid = a.atttypid join pg_class c on c.oid = t.typrelid
                   join pg_attribute f on f.attrelid = c.oid and f.attnum > 0
             where a.attrelid = w.oid and a.attnum > 0 and not a.attisdropped)))
  from wanted w
