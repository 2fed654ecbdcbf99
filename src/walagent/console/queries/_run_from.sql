  from agent.run r
       left join agent.attachment_version v on v.attachment_id = r.attachment_id and v.version = r.attachment_version
-- include: _thread_from
       cross join lateral (select case when (select agent_internal.readable()) is null then r.change else agent_internal.shown(r.change, r.attachment_id, (select agent_internal.readable())) end as change) h
       cross join lateral (select coalesce(nullif(h.change -> 'new', 'null'), nullif(h.change -> 'old', 'null'), '{}') as content) c
