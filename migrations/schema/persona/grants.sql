insert into agent_internal.privilege (kind, object, privilege, capabilities) values
    ('table', 'agent.persona', 'select', '{runner,viewer}'),
    ('table', 'agent.persona', 'select, insert, update, delete', '{developer}'),
    ('table', 'agent.persona_version', 'select', '{runner,viewer,developer}'),
    ('function', 'agent.effective_parameters(text)', 'execute', '{runner,viewer,developer}'),
    ('function', 'agent_internal.behavior_of(agent.agent)', 'execute', '{runner,viewer,developer}'),
    ('function', 'agent_internal.cascade_of(agent.agent)', 'execute', '{runner,viewer,developer}'),
    ('function', 'agent_internal.effective_agent(agent.agent)', 'execute', '{runner,viewer,developer}'),
    ('function', 'agent_internal.fallback_of(agent.agent)', 'execute', '{runner,viewer,developer}'),
    ('function', 'agent_internal.persona_of(agent.agent)', 'execute', '{runner,viewer,developer}'),
    ('function', 'agent_internal.persona_prompt(agent.persona)', 'execute', '{runner,viewer,developer}'),
    ('function', 'agent_internal.with_approvals(jsonb, agent.agent)', 'execute', '{runner,viewer,developer}');
