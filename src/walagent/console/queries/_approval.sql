p.id, p.run_id, coalesce(p.agent, v.definition ->> 'agent') as agent, p.tool, p.arguments, p.edited, p.digest, p.run_as::text,
p.state, p.risk, p.requested_by::text[] as requested_by, p.four_eyes,
(r.change ->> 'schema') || '.' || (r.change ->> 'table') as relation, r.key,
left(coalesce(c.content ->> 'subject', c.content ->> 'title', c.content ->> 'name'), 160) as title,
p.asked_at, p.expires_at, p.decided_by::text, p.decided_at, p.reason
