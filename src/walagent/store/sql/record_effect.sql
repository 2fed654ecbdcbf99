-- Record that a version of an attachment is in effect from its commit until the next version.
-- The WAL can be read before its transaction is visible to others; an insert that conflicts with the
-- version's row waits for that, whereas an update would find no row.
with ended as (
    update agent.attachment_version
       set active_until = %(lsn)s
     where attachment_id = %(attachment)s and active_from is not null and active_until is null
       and version is distinct from %(version)s
)
insert into agent.attachment_version as v (attachment_id, version, definition, active_from)
select %(attachment)s, %(version)s, %(definition)s, %(lsn)s
 where %(version)s::integer is not null
on conflict (attachment_id, version) do update
   set active_from = coalesce(v.active_from, excluded.active_from)
