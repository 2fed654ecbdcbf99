-- What a filter of runs accepts: constants fold, so that the planner can use the partial indexes on states.
(%(state)s = ''
 or (r.state = 'pending' and 'pending' = any (string_to_array(%(state)s, ',')))
 or (r.state = 'running' and 'running' = any (string_to_array(%(state)s, ',')))
 or (r.state = 'waiting_approval' and 'waiting_approval' = any (string_to_array(%(state)s, ',')))
 or (r.state = 'waiting_retry' and 'waiting_retry' = any (string_to_array(%(state)s, ',')))
 or (r.state = 'needs_review' and 'needs_review' = any (string_to_array(%(state)s, ',')))
 or (r.state = 'succeeded' and 'succeeded' = any (string_to_array(%(state)s, ',')))
 or (r.state = 'failed' and 'failed' = any (string_to_array(%(state)s, ',')))
 or (r.state = 'dead' and 'dead' = any (string_to_array(%(state)s, ',')))
 or (r.state = 'cancelled' and 'cancelled' = any (string_to_array(%(state)s, ',')))
 or (r.state = 'skipped' and 'skipped' = any (string_to_array(%(state)s, ','))))
and (%(agent)s = ''
     or r.attachment_id in (select v.attachment_id from agent.attachment_version v
                             where v.definition ->> 'agent' = any (string_to_array(%(agent)s, ',')))
     or r.attachment_id in (select o.attachment_id from agent_internal.versions_of_others() o
                             where o.agent = any (string_to_array(%(agent)s, ',')))
     or r.attachment_id is null and r.kind = any (string_to_array(%(agent)s, ',')))
and (%(relation)s = ''
     or r.change ->> 'table' = any (string_to_array(%(relation)s, ','))
     or (r.change ->> 'schema') || '.' || (r.change ->> 'table') = any (string_to_array(%(relation)s, ',')))
and (%(key)s = '' or r.key = any (string_to_array(%(key)s, ',')))
and (%(kind)s = '' or r.kind = any (string_to_array(%(kind)s, ',')))
-- As groups of failures show them.
and (%(reason)s = '' or coalesce(r.error ->> 'reason', 'no reason was recorded') = %(reason)s
     or agent_internal.without_values(coalesce(r.error ->> 'reason', 'no reason was recorded')) = %(reason)s)
and (%(sqlstate)s = '' or coalesce(r.error ->> 'sqlstate', 'none') = %(sqlstate)s)
-- As the lists show them: 10s, <10s, 0.05, <0.05.
and (%(model)s = ''
     or exists (select from agent.attachment_version m
                 where m.attachment_id = r.attachment_id and m.version = r.attachment_version
                   and m.definition ->> 'model' = any (string_to_array(%(model)s, ',')))
     or r.attachment_id is null
        and exists (select from agent.step m where m.run_id = r.id and m.kind = 'reply'
                                               and coalesce(m.content ->> 'registered', m.content ->> 'model') = any (string_to_array(%(model)s, ','))))
and (%(duration)s = ''
     or case when left(%(duration)s, 1) = '<' then r.finished_at - r.started_at < nullif(ltrim(%(duration)s, '<>'), '')::interval
             else coalesce(r.finished_at, now()) - r.started_at >= nullif(ltrim(%(duration)s, '<>'), '')::interval end)
and (%(cost)s = ''
     or case when left(%(cost)s, 1) = '<' then r.cost < nullif(ltrim(%(cost)s, '<>'), '')::numeric
             else r.cost >= nullif(ltrim(%(cost)s, '<>'), '')::numeric end)
and coalesce(r.finished_at, r.created_at) >= case when %(ended)s = '' then '-infinity'::timestamptz
                                                  when %(ended)s = 'today' then date_trunc('day', now())
                                                  when %(ended)s ~ '^\d{4}-' then split_part(%(ended)s, '..', 1)::timestamptz
                                                  else now() - nullif(%(ended)s, '')::interval end
and coalesce(r.finished_at, r.created_at) < case when %(ended)s ~ '^\d{4}-.*[.][.].' then split_part(%(ended)s, '..', 2)::timestamptz
                                                 else 'infinity'::timestamptz end
and (%(tenant)s = '' or r.tenant = any (string_to_array(%(tenant)s, ',')))
and r.created_at >=
-- include: _since
and r.created_at <
-- include: _until
and (%(q)s = ''
     or r.key = %(q)s
     or r.id = case when %(q)s ~ '^[0-9]{1,18}$' then nullif(%(q)s, '')::bigint end
     -- Text of rows has no index: it is searched from run `oldest` on, by default in the newest 10,000.
     or (%(q)s !~ '^[0-9]{1,18}$'
         and r.id >= coalesce(nullif(%(oldest)s, '')::bigint, (select max(n.id) from agent.run n) - 9999)
         and (strpos(lower((case when (select agent_internal.readable()) is null then r.change else agent_internal.shown(r.change, r.attachment_id, (select agent_internal.readable())) end) ->> 'new'), lower(%(q)s)) > 0 or strpos(lower(r.error ->> 'reason'), lower(%(q)s)) > 0)))
