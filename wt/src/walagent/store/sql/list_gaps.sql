-- Stretches of WAL that were lost, the newest first.
select g.id, g.slot, g.from_lsn::text, g.to_lsn::text, g.reason, g.found_at, g.resolution, g.resolved_at
  from agent.gap g
 where %(all)s or g.resolved_at is null
 order by g.id desc
