-- key: id
-- Ranges of WAL that were lost, and what was done about them, for each attachment.
select g.id, g.slot, g.from_lsn::text, g.to_lsn::text, g.to_lsn - g.from_lsn as bytes, g.since, g.reason, g.found_at, g.resolution, g.resolved_at, g.resolved_by::text,
       (select coalesce(jsonb_agg(jsonb_build_object('attachment', c.attachment, 'choice', c.choice, 'column', c.column_name,
                                                     'rows', c.rows, 'runs', c.runs, 'undated', c.undated) order by c.attachment), '[]')
          from agent.gap_choice c where c.gap_id = g.id) as choices
  from agent.gap g
 order by g.id desc
 limit 100
