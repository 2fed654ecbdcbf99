  from agent.approval p
       join agent.run r on r.id = p.run_id
       left join agent.attachment_version v on v.attachment_id = r.attachment_id and v.version = r.attachment_version
-- include: _thread_from
       cross join lateral (select agent_internal.shown(r.change, r.attachment_id, (select agent_internal.readable())) as change) h
       cross join lateral (select coalesce(nullif(h.change -> 'new', 'null'), nullif(h.change -> 'old', 'null'), '{}') as content) c
       cross join lateral (
           select coalesce(jsonb_object_agg(b.argument, c.content -> b.source), '{}') as bound
             from jsonb_array_elements(v.definition -> 'tools') t cross join jsonb_each_text(t -> 'bind') b (argument, source)
            where t ->> 'name' = p.tool and c.content ? b.source) b
