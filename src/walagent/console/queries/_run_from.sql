  from agent.run r
       left join agent.attachment_version v on v.attachment_id = r.attachment_id and v.version = r.attachment_version
       cross join lateral (select coalesce(nullif(r.change -> 'new', 'null'), nullif(r.change -> 'old', 'null'), '{}') as content) c
