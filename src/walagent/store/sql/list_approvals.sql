-- Tool calls that wait for approval, the oldest first.
select p.id, p.run_id, p.attachment, p.tool, p.arguments, p.bound, p.relation, p.key, p.content, p.asked_at, p.expires_at,
       -- A tool over HTTP, which has the request.
       (select t.tool
          from agent.run r
               join agent.attachment_version v on v.attachment_id = r.attachment_id and v.version = r.attachment_version
               cross join jsonb_array_elements(v.definition -> 'tools') as t (tool)
         where r.id = p.run_id and t.tool ->> 'name' = p.tool and t.tool ->> 'kind' = 'http') as http
  from agent.pending_approval p
 order by p.id
