-- Tables whose names are keywords, whatever their capitals, those on the search path first; names of functions.
select 'table', c.oid::int8, lower(c.relname),
       case when n.nspname = any (%(schemas)s::text[]) then '"' || replace(c.relname, '"', '""') || '"'
            else quote_ident(n.nspname) || '."' || replace(c.relname, '"', '""') || '"' end as title
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where lower(c.relname) = any (%(names)s::text[]) and c.relkind in ('r', 'p', 'v', 'm', 'f')
   and n.nspname not in ('pg_catalog', 'information_schema') and n.nspname not like 'pg\_temp%%'
union all
select 'function', p.oid::int8, p.proname, ''
  from pg_proc p
 where p.oid = any (%(functions)s::oid[])
 order by 1, 4
