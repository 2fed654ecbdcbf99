-- The attachments of the tenant, in the form that `apply` compares: times in seconds, the relation by OID.
select a.name,
       to_jsonb(a) - '{id,name,version,tenant,attached_by,attached_at,search_path,definition,turns,paused_reason,paused_by,canary,canary_share,canary_definition,canary_shadow}'::text[]
           || jsonb_build_object('relation', a.relation::oid::bigint, 'debounce', extract(epoch from a.debounce)::float8,
                                 'approval_ttl', extract(epoch from a.approval_ttl)::float8) as fields
  from agent.attachment a
 where a.tenant = agent.current_tenant()
