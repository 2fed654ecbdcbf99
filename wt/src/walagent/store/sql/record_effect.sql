-- A version of an attachment is in effect from the commit that made it, until the next one.
-- The WAL can be read a moment before its transaction is visible to others; an insert that meets
-- the version's row waits for that, where an update would find nothing.
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
