-- Tool calls that wait for approval, the highest risk first, then the oldest.
select p.id, p.run_id, p.attachment, p.tool, p.arguments, p.bound, p.relation, p.key, p.content, p.asked_at, p.expires_at,
       p.agent, p.risk, p.requested_by::text[] as requested_by, p.four_eyes,
       -- The tool as the run has it.
       (select t.tool
          from agent.run r
               join agent.attachment_version v on v.attachment_id = r.attachment_id and v.version = r.attachment_version
               cross join jsonb_array_elements(v.definition -> 'tools') as t (tool)
         where r.id = p.run_id and t.tool ->> 'name' = p.tool) as definition
  from agent.pending_approval p
 order by array_position('{low,medium,high,critical}', coalesce(p.risk, 'critical')) desc, p.id
