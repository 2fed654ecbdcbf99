-- Runs that changed rows and are in effect, the latest first.
select r.id
  from agent.run r
       left join agent.attachment_version v on v.attachment_id = r.attachment_id and v.version = r.attachment_version
 where r.kind in ('agent', 'turn', 'node')
   and r.state in ('succeeded', 'failed', 'dead', 'cancelled')
   and (%(agent)s::text is null or v.definition ->> 'agent' = %(agent)s)
   and (%(version)s::integer is null or r.attachment_version = %(version)s)
   and exists (select from agent.row_change c
                where c.run_id = r.id
                  and (%(since)s::timestamptz is null or c.committed_at >= %(since)s)
                  and (%(age)s::interval is null or c.committed_at >= now() - %(age)s))
   and not exists (select from agent.run u where u.undoes = r.id and u.state = 'succeeded' and not u.change ?| '{dry_run,partial}'
                      and agent_internal.in_effect(u.id))
 order by r.id desc
