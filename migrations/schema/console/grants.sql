insert into agent_internal.privilege (kind, object, privilege, capabilities) values
    ('table', 'agent.agent_stats', 'select', '{runner,viewer}'),
    ('table', 'agent.conversation_timeline', 'select', '{runner,viewer}'),
    ('table', 'agent.dashboard', 'select', '{runner,viewer}'),
    ('table', 'agent.error_log', 'select', '{runner,viewer}'),
    ('table', 'agent.hourly_activity', 'select', '{runner,viewer}'),
    ('table', 'agent.issue', 'select, insert, update', '{runner,viewer}'),
    ('table', 'agent.live_activity', 'select', '{runner,viewer}'),
    ('table', 'agent.saved_filter', 'select, insert, update, delete', '{runner,viewer}'),
    ('table', 'agent.thinking_trace', 'select', '{runner,viewer}'),
    ('table', 'agent.tool_call_queue', 'select', '{runner,viewer}'),
    ('function', 'agent.agent_analytics(integer)', 'execute', '{runner,viewer}');
