p.id, p.run_id, coalesce(p.agent, v.definition ->> 'agent') as agent, p.tool,
-- As text: a browser would round large numbers.
(select string_agg(e.key || ' => ' || case e.value when 'null' then 'NULL' else e.value::text end, ', ' order by length(e.value::text) > 60, b.bound ? e.key desc) from jsonb_each(b.bound || coalesce(p.edited, p.arguments)) e) as values,
-- Cut, and as text: what lists show in columns, and sort and filter by.
(select coalesce(jsonb_object_agg(e.key, left(coalesce(e.value #>> '{}', 'NULL'), 120)), '{}') from jsonb_each(b.bound || coalesce(p.edited, p.arguments)) e) as brief,
p.arguments, p.edited, p.digest, p.run_as::text,
p.state, p.risk, p.requested_by::text[] as requested_by, p.four_eyes,
-- include: _subject
,
p.asked_at, p.expires_at, p.decided_by::text, p.decided_at, p.reason
