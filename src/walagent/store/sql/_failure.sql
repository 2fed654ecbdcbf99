-- What makes failures the same issue, as the columns of agent.issue have it; run: r, the version of its attachment: v.
coalesce(v.definition ->> 'agent', r.kind) as agent, coalesce(r.error ->> 'reason', 'no reason was recorded') as reason,
coalesce(r.error ->> 'sqlstate', '') as sqlstate, r.attachment_version as version
