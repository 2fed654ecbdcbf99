insert into agent_internal.privilege (kind, object, privilege, capabilities) values
    ('table', 'agent.agent_stats', 'select', '{runner,viewer}'),
    ('table', 'agent.conversation_timeline', 'select', '{runner,viewer}'),
    ('table', 'agent.dashboard', 'select', '{runner,viewer}'),
    ('table', 'agent.error_log', 'select', '{runner,viewer}'),
    ('table', 'agent.hourly_activity', 'select', '{runner,viewer}'),
    ('table', 'agent.issue', 'select', '{runner,viewer}'),
    ('table', 'agent.live_activity', 'select', '{runner,viewer}'),
    ('table', 'agent.saved_filter', 'select, insert, update, delete', '{runner,viewer}'),
    ('table', 'agent.thinking_trace', 'select', '{runner,viewer}'),
    ('table', 'agent.tool_call_queue', 'select', '{runner,viewer}'),
    ('table', 'agent_internal.failure', 'select', '{runner,viewer}'),
    ('function', 'agent.agent_analytics(integer)', 'execute', '{runner,viewer}'),
    ('function', 'agent.assign_issue(text, text, text, name)', 'execute', '{runner,approver}'),
    ('function', 'agent.decide_issue(text, text, text, text, text, interval)', 'execute', '{runner,approver}'),
    ('function', 'agent_internal.prune_issues(interval)', 'execute', '{runner}'),
    ('function', 'agent_internal.versions_of_others()', 'execute', '{runner,viewer}'),
    ('function', 'agent_internal.without_values(text)', 'execute', '{runner,viewer,approver}');

insert into agent_internal.owner_function (function) values
    ('agent_internal.versions_of_others()');
