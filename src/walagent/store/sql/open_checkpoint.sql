-- Create the checkpoint of a slot.  Attachments that exist at the slot's consistent point are in
-- effect from there; later ones arrive through the WAL.
with existing as (
    select id, version from unnest(%(ids)s::bigint[], %(versions)s::integer[]) as given (id, version)
    union all
    select id, version from agent.attachment where %(ids)s::bigint[] is null
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
       set active_from = %(start)s
      from existing a
     where a.id = v.attachment_id and a.version = v.version and v.active_from is null
)
select generation from opened
