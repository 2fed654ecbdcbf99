-- Create the checkpoint of a slot.  Attachments that exist at the slot's consistent point are in
-- effect from there; later ones arrive through the WAL.
with existing as (
    select id, version, share, shadow
      from unnest(%(ids)s::bigint[], %(versions)s::integer[], %(shares)s::double precision[], %(shadows)s::boolean[])
               as given (id, version, share, shadow)
    union all
    select id, version, null, false from agent.attachment where %(ids)s::bigint[] is null
    union all
    select id, (canary_definition ->> 'version')::integer, canary_share, canary_shadow
      from agent.attachment where %(ids)s::bigint[] is null and canary is not null
), opened as (
    insert into agent.checkpoint (slot, system_id, timeline, plugin, commit_lsn, end_lsn, committed_at)
    values (%(slot)s, %(system_id)s, %(timeline)s, %(plugin)s, %(start)s, %(start)s, coalesce(%(at)s, now()))
    on conflict (slot) do update
       set generation = agent.checkpoint.generation + 1, system_id = excluded.system_id,
           timeline = excluded.timeline, plugin = excluded.plugin, commit_lsn = excluded.commit_lsn,
           end_lsn = excluded.end_lsn, committed_at = excluded.committed_at, abandoned_at = null,
           epoch = agent.checkpoint.epoch + 1, updated_at = agent_internal.now()
    returning generation
), ended as (
    update agent.attachment_version v
       set active_until = %(start)s
     where v.active_from is not null and v.active_until is null
       and not exists (select from existing a where a.id = v.attachment_id and a.version = v.version)
), begun as (
    update agent.attachment_version v
       set active_from = coalesce(v.active_from, %(start)s), share = a.share, shadow = a.shadow
      from existing a
     where a.id = v.attachment_id and a.version = v.version
       and (v.active_from is null or (v.share, v.shadow) is distinct from (a.share, a.shadow))
)
select generation from opened
