-- Gaps, the newest first, with the choices for each attachment.
select g.id, g.slot, g.from_lsn::text, g.to_lsn::text, g.since, g.reason, g.found_at, g.resolution, g.resolved_at,
       g.resolved_by,
       array(select format('%%s=%%s', c.attachment, concat_ws(':', c.choice, c.column_name))
               from agent.gap_choice c where c.gap_id = g.id order by c.attachment) as choices
  from agent.gap g
 where %(all)s or g.resolved_at is null
 order by g.id desc
