-- The statements that give the holders of capabilities what these have now, after what they have no longer is revoked.
with holder as (
    select h ->> 'capability' as capability, (h ->> 'role')::name as role
      from jsonb_array_elements(%(holders)s::jsonb) h
     where exists (select from pg_catalog.pg_roles r where r.rolname = h ->> 'role')
), lost as (
    select p.kind, p.object, p.privilege, p.capabilities
      from jsonb_populate_recordset(null::agent_internal.privilege, %(privileges)s::jsonb) p
     where (p.kind = 'function' and to_regprocedure(p.object) is not null or p.kind <> 'function' and to_regclass(p.object) is not null)
       and not exists (select from agent_internal.privilege n
                        where (n.kind, n.object, n.privilege) = (p.kind, p.object, p.privilege)
                          and n.capabilities @> p.capabilities)
)
select format('revoke %%s on %%s %%s from %%I', l.privilege, l.kind, l.object, h.role)
  from lost l join holder h on h.capability = any (l.capabilities)
union all
select format('select agent_internal.grant_capability(%%L, %%L)', h.capability, h.role) from holder h
 order by 1  -- revoke before select
