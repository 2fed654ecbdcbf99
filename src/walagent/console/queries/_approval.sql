p.id, p.run_id, coalesce(p.agent, v.definition ->> 'agent') as agent, p.tool, p.arguments, p.edited, p.digest, p.run_as::text,
p.state, p.risk, p.requested_by::text[] as requested_by, p.four_eyes,
-- include: _subject
,
p.asked_at, p.expires_at, p.decided_by::text, p.decided_at, p.reason
