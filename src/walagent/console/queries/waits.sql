-- key: id
-- What waits for a person: calls to approve, outcomes to resolve, broken attachments.
select 'approval/' || p.id as id, 'approval' as kind, p.run_id, p.id as approval_id, coalesce(p.agent, a.name) as agent,
       left(p.tool || '(' || coalesce((select string_agg(e.key || ' => ' || case when jsonb_typeof(e.value) = 'string' then quote_literal(e.value #>> '{}')
                                                                            else e.value::text end, ', ' order by b.bound ? e.key desc)
                                    from jsonb_each(b.bound || p.arguments) e), '') || ')', 500) as call,
       '' as about, p.asked_at as since, p.expires_at
-- include: _approval_from
       left join agent.attachment a on a.id = r.attachment_id
 where p.state = 'pending'
union all
select 'review/' || r.id, 'review', r.id, null, a.name,
       (select s.content ->> 'name' from agent.step s where s.run_id = r.id and s.kind = 'intent' order by s.seq desc limit 1),
       'was started, its worker stopped before the answer',
       coalesce((select max(s.recorded_at) from agent.step s where s.run_id = r.id), r.created_at), null
  from agent.run r left join agent.attachment a on a.id = r.attachment_id
 where r.state = 'needs_review'
union all
select 'broken/' || a.id, 'broken', null, null, a.agent, a.name, 'on ' || (a.definition ->> 'table') || ': ' || a.paused_reason,
       (select max(v.made_at) from agent.attachment_version v where v.attachment_id = a.id), null
  from agent.attachment a
 where a.paused and a.paused_reason is not null and a.paused_by is null
