-- Begin the ledger of a slot.  Attachments that exist at the slot's consistent point are in effect
-- from there: those made later arrive through the WAL.
with former as (
    select generation from agent.progress where slot = %(slot)s
), opened as (
    insert into agent.progress (slot, generation, system_id, timeline, plugin, commit_lsn, end_lsn)
    values (%(slot)s, coalesce((select generation from former), 0) + 1, %(system_id)s, %(timeline)s, %(plugin)s,
            %(start)s, %(start)s)
    on conflict (slot) do update
       set generation = excluded.generation, system_id = excluded.system_id, timeline = excluded.timeline,
           plugin = excluded.plugin, commit_lsn = excluded.commit_lsn, end_lsn = excluded.end_lsn,
           epoch = agent.progress.epoch + 1, updated_at = agent.now()
), ended as (
    update agent.attachment_version v
       set active_until = %(start)s
     where v.active_from is not null and v.active_until is null
       and not exists (select from agent.attachment a where a.id = v.attachment_id and a.version = v.version)
)
update agent.attachment_version v
   set active_from = %(start)s
  from agent.attachment a
 where a.id = v.attachment_id and a.version = v.version and v.active_from is null
