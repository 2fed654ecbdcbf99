-- Record that a version of an attachment is in effect from its commit until the next version, and
-- which share its canary has, or whether it is a shadow.
-- The WAL can be read before its transaction is visible to others; an insert that conflicts with the
-- version's row waits for that, whereas an update would find no row.  A definition that the WAL does
-- not repeat was stored before.
with given as (
    select * from (values (%(version)s::integer, %(definition)s::jsonb, null::double precision, false),
                          (%(canary)s::integer, %(canary_definition)s::jsonb, %(share)s::double precision, %(shadow)s::boolean))
               as g (version, definition, share, shadow)
     where g.version is not null
), ended as (
    update agent.attachment_version
       set active_until = %(lsn)s
     where attachment_id = %(attachment)s and active_from is not null and active_until is null
       and version <> all (array(select g.version from given g))
), shared as (
    update agent.attachment_version v
       set share = g.share, shadow = g.shadow
      from given g
     where v.attachment_id = %(attachment)s and v.version = g.version and g.definition is null
       and (v.share, v.shadow) is distinct from (g.share, g.shadow)
)
insert into agent.attachment_version as v (attachment_id, version, definition, share, shadow, active_from)
select %(attachment)s, g.version, g.definition, g.share, g.shadow, %(lsn)s
  from given g
 where g.definition is not null
on conflict (attachment_id, version) do update
   set active_from = coalesce(v.active_from, excluded.active_from), share = excluded.share,
       shadow = excluded.shadow
