-- The attachments of a table, with what decides whether a change starts a run.
select v.definition,
       a.name,
       a.paused,
       a.paused_reason,
       a.attached_at,
       v.active_from is not null as active,
       b.state as backfill
  from agent.attachment a
       join agent.attachment_version v on v.attachment_id = a.id and v.version = a.version
       left join agent.backfill b on b.attachment_id = a.id
 where a.relation = %(relation)s
 order by a.name
