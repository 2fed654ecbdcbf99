-- role: developer
-- parameters: agent, text, key, kind, about
-- Store a memory of an agent; returns its ID.
select agent.remember(%(agent)s::name, to_jsonb(%(text)s::text), key => nullif(%(key)s, ''), kind => %(kind)s,
                      principal => nullif(%(about)s, '')::name)
