       -- Why the caller's own login (x, role l) cannot read table c of schema n as it is; NULL: it can, or some of its columns.
       -- A policy cannot judge a row of the past, so a table with policies is for logins that they do not apply to.
       (case when l.oid is null then 'login'
             when not has_schema_privilege(l.oid, n.oid, 'usage') or not has_any_column_privilege(l.oid, c.oid, 'select')
                  or exists (select from pg_catalog.pg_index i cross join unnest(i.indkey) k
                              where i.indrelid = c.oid and i.indisprimary and not has_column_privilege(l.oid, c.oid, k, 'select'))
             then 'grant'
             when c.relrowsecurity and not l.rolsuper and not l.rolbypassrls
                  and (c.relforcerowsecurity or not pg_has_role(l.oid, c.relowner, 'usage'))
             then 'policy' end) as refusal,
