-- key: id
-- Ranges of WAL that were lost, and what was done about them.
select g.id, g.slot, g.from_lsn::text, g.to_lsn::text, g.reason, g.found_at, g.resolution, g.resolved_at, g.resolved_by::text
  from agent.gap g
 order by g.id desc
 limit 100
