-- The columns of a table that a role can read; NULL: it can read the whole table.
select case when not has_table_privilege(r.oid, c.oid, 'select')
            then array(select a.attname::text from pg_catalog.pg_attribute a
                        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
                          and has_column_privilege(r.oid, c.oid, a.attnum, 'select')
                        order by a.attnum) end
  from pg_catalog.pg_class c
       join pg_catalog.pg_namespace n on n.oid = c.relnamespace
       join pg_catalog.pg_roles r on r.rolname = %(role)s
 where n.nspname = %(schema)s and c.relname = %(table)s
