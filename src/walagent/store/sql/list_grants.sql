-- The statements that give a function or a view the privileges again that it has now: those of others, too.
select format('grant %%s on %%s to %%s%%s', x.privilege_type, case when %(object)s ~ '^function' then %(object)s else regexp_replace(%(object)s, '^view', 'table') end,
              x.grantee::regrole, case when x.is_grantable then ' with grant option' else '' end)
  from (select p.proacl as acl, p.proowner as owner from pg_catalog.pg_proc p
         where %(object)s ~ '^function' and p.oid = to_regprocedure(regexp_replace(%(object)s, '^function ', ''))
        union all
        select c.relacl, c.relowner from pg_catalog.pg_class c
         where %(object)s ~ '^view' and c.oid = to_regclass(regexp_replace(%(object)s, '^view ', ''))) o,
       pg_catalog.aclexplode(o.acl) x
 where x.grantee not in (0, o.owner)
