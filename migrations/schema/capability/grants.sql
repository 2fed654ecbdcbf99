insert into agent_internal.privilege (kind, object, privilege, capabilities) values
    ('table', 'agent_internal.holder', 'select', '{runner}'),
    ('table', 'agent_internal.owner_function', 'select', '{runner,viewer}'),
    ('table', 'agent_internal.privilege', 'select', '{runner}'),
    ('function', 'agent_internal.denied_right(text, text, name)', 'execute', '{runner,viewer,developer,asker,member}'),
    ('function', 'agent_internal.misowned_functions()', 'execute', '{runner,viewer}'),
    ('function', 'agent_internal.own_capabilities()', 'execute', '{runner,viewer,developer,asker,member}'),
    ('function', 'agent_internal.restrict_definers()', 'execute', '{runner}');
