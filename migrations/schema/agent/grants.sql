insert into agent_internal.privilege (kind, object, privilege, capabilities) values
    ('table', 'agent.agent', 'select', '{runner,viewer}'),
    ('table', 'agent.agent', 'select, insert, update, delete', '{developer}'),
    ('table', 'agent.agent_version', 'select', '{runner,viewer,developer}'),
    ('table', 'agent_internal.rate', 'select', '{runner}'),
    ('function', 'agent.rollback(text, integer)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.name_refusal(text, text)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.take_rate(text, text[], integer[])', 'execute', '{runner}'),
    ('function', 'agent_internal.take_request(bigint, bigint, text[], integer[])', 'execute', '{runner}'),
    ('function', 'agent_internal.tenant_of(agent.agent)', 'execute', '{runner,viewer,developer}');
