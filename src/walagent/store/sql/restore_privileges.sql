-- The statements that give the holders of capabilities what is new in these, and take what is gone.  What a DBA granted or
-- revoked beside stays.
with former as (
    select p.kind, p.object, p.privilege, c as capability
      from jsonb_populate_recordset(null::agent_internal.privilege, %(privileges)s::jsonb) p, unnest(p.capabilities) c
), present as (
    select p.kind, p.object, p.privilege, c as capability from agent_internal.privilege p, unnest(p.capabilities) c
), lost as (
    select * from former except select * from present
), added as (
    select * from present except select * from former
)
select statement from (
    select 1 as turn, format('revoke %%s on %%s %%s from %%I', l.privilege, l.kind, l.object, h.role) as statement
      from lost l join agent_internal.present_holders() h using (capability)
     where case when l.kind = 'function' then to_regprocedure(l.object) is not null else to_regclass(l.object) is not null end
       and not exists (select from present p join agent_internal.present_holders() o using (capability)
                        where o.role = h.role and (p.kind, p.object, p.privilege) = (l.kind, l.object, l.privilege))
    union all
    select 2, format('grant %%s on %%s %%s to %%I', a.privilege, a.kind, a.object, h.role)
      from added a join agent_internal.present_holders() h using (capability)) s
 order by turn
