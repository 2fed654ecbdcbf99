-- The runs of one row, newest first; the run of a removed attachment has no name.
select r.id,
       r.attachment_id,
       a.name as attachment,
       r.state::text,
       r.change ->> 'op' as op,
       r.reason,
       r.depth,
       r.cause_run,
       r.error ->> 'reason' as error,
       r.committed_at,
       r.created_at
  from agent.run r
       left join agent.attachment a on a.id = r.attachment_id
 where r.key = any (%(keys)s) and r.change ->> 'schema' = %(schema)s and r.change ->> 'table' = %(table)s
 order by r.id desc
 limit 20
