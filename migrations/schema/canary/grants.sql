insert into agent_internal.privilege (kind, object, privilege, capabilities) values
    ('table', 'agent.canary', 'select', '{runner,viewer,developer}'),
    ('table', 'agent.canary_figures', 'select', '{runner,viewer}'),
    ('function', 'agent.canary(text, text, double precision, text, integer)', 'execute', '{runner,developer}'),
    ('function', 'agent.promote_canary(text)', 'execute', '{runner,developer}'),
    ('function', 'agent.roll_back_canary(text, text)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.apply_canary(agent.attachment, agent.attachment, jsonb, name[])', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.attachment_of_canary(text, boolean)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.canary_changes(agent.attachment)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.canary_columns(jsonb)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.canary_definition(agent.attachment, agent.attachment, name[])', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.canary_keys()', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.change_canary_agent(text, jsonb)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.check_canary(bigint)', 'execute', '{runner}'),
    ('function', 'agent_internal.check_sole_use(agent.attachment)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.due_canaries()', 'execute', '{runner}'),
    ('function', 'agent_internal.next_version(agent.attachment)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.parse_rule(text)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.version_figures(bigint, integer, bigint, bigint)', 'execute', '{runner,viewer}'),
    ('function', 'agent_internal.checked_versions(text, agent.attachment, agent.attachment, name[])', 'execute', '{runner,developer}');

insert into agent_internal.owner_function (function) values
    ('agent_internal.check_canary(bigint)'),
    ('agent_internal.due_canaries()');
