-- The first row of each chain that is not as it was written.  Everything is computed here: who could rewrite rows could
-- also rewrite functions of the schema.
with seen as (
    select a.tenant, a.number, a.previous, a.digest,
           row_number() over chain as position,
           lag(a.number, 1, 0::bigint) over chain as number_before,
           coalesce(lag(a.digest) over chain, decode(repeat('00', 32), 'hex')) as digest_before,
           sha256(a.previous || convert_to(jsonb_build_array(
               a.tenant, a.number, extract(epoch from a.at), a.principal, a.login, a.action, a.object, a.detail)::text, 'utf8')) as computed
      from agent.audit a
     where a.tenant = coalesce(nullif(%(tenant)s::text, ''), a.tenant)
    window chain as (partition by a.tenant order by a.number)
), broken as (
    select distinct on (s.tenant) s.tenant,
           case when s.number <> s.number_before + 1 then s.number_before + 1 else s.number end as number,
           case when s.number <> s.number_before + 1 then 'the row was removed'
                when s.computed <> s.digest then 'the row was changed'
                else 'the row does not follow the one before: it was inserted or moved' end as reason
      from seen s
     where s.number <> s.number_before + 1 or s.previous <> s.digest_before or s.computed <> s.digest
     order by s.tenant, s.number
), chain as (
    select s.tenant, count(*) as rows, max(s.number) as last,
           (array_agg(encode(s.digest, 'hex') order by s.number desc))[1] as digest,
           max(encode(s.digest, 'hex')) filter (where s.number = nullif(%(number)s::text, '')::bigint) as digest_at
      from seen s group by s.tenant
), known as (
    select tenant from chain
    union
    select h.tenant from agent_internal.audit_head h
     where h.tenant = coalesce(nullif(%(tenant)s::text, ''), h.tenant)
       and (agent_internal.all_tenants() or h.tenant = agent.current_tenant())
)
select k.tenant, coalesce(c.rows, 0) as rows, c.last || ':' || c.digest as head,
       coalesce(b.number, case when coalesce(c.last, 0) < nullif(%(number)s::text, '')::bigint or coalesce(c.last, 0) < h.number then coalesce(c.last, 0) + 1
                               when c.digest_at <> nullif(%(digest)s::text, '') then nullif(%(number)s::text, '')::bigint
                               when c.last > h.number then h.number + 1
                               when c.digest <> encode(h.digest, 'hex') then c.last end) as bad_row,
       coalesce(b.reason, case when coalesce(c.last, 0) < nullif(%(number)s::text, '')::bigint or coalesce(c.last, 0) < h.number then 'the row was removed'
                               when c.digest_at <> nullif(%(digest)s::text, '') then 'the chain up to this row was rewritten'
                               when c.last > h.number then 'the row was inserted'
                               when c.digest <> encode(h.digest, 'hex') then 'the chain up to this row was rewritten' end) as reason
  from known k
       left join chain c on c.tenant = k.tenant
       left join broken b on b.tenant = k.tenant
       left join agent_internal.audit_head h on h.tenant = k.tenant
 order by k.tenant
