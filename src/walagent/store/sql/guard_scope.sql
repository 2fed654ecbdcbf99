-- Among the relations that a statement reads, those with a row level security policy that can hide
-- rows from the role that reads them.
--
-- That is the current role (reader 0), or the owner of a view that reads with its own rights.  A role
-- with BYPASSRLS is not limited, nor the owner of a table without FORCE ROW LEVEL SECURITY, nor is any
-- role by a policy that is true for all rows.
select x.ord::int4 as ord, r.rolname::text as reader
  from unnest(%(relations)s::oid[], %(readers)s::oid[]) with ordinality as x (relation, reader, ord)
       join pg_class c on c.oid = x.relation
       join pg_roles r on r.oid = case x.reader when 0 then (select oid from pg_roles where rolname = current_user) else x.reader end
 where c.relrowsecurity and c.relkind in ('r', 'p')
   and not r.rolsuper and not r.rolbypassrls
   and (c.relforcerowsecurity or not pg_has_role(r.oid, c.relowner, 'usage'))
   and not (
       select coalesce(bool_or(p.polpermissive and q.all_rows) and bool_and(p.polpermissive or q.all_rows), false)
         from pg_policy p
              cross join lateral (select pg_get_expr(p.polqual, p.polrelid) is not distinct from 'true') as q (all_rows)
        where p.polrelid = c.oid and p.polcmd in ('r', '*')
          and exists (select from unnest(p.polroles) as role where role = 0 or pg_has_role(r.oid, role, 'usage')))
 order by x.ord
