  from agent.approval p
       join agent.run r on r.id = p.run_id
       left join agent.attachment_version v on v.attachment_id = r.attachment_id and v.version = r.attachment_version
       cross join lateral (select coalesce(nullif(r.change -> 'new', 'null'), nullif(r.change -> 'old', 'null'), '{}') as content) c
