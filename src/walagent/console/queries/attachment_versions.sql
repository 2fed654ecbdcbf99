-- key: version
-- parameters: attachment
-- The versions of an attachment, newest first.
select v.version, v.made_at, v.active_from is not null and v.active_until is null as is_active, v.definition ->> 'model' as model,
       case when agent_internal.sees_runs() or agent.has_role('developer') then left(v.definition ->> 'system_prompt', 20000) end as system_prompt
  from agent.attachment_version v
       join agent.attachment a on a.id = v.attachment_id
 where a.name = %(attachment)s
 order by v.version desc
 limit 50
