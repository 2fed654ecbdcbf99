insert into agent_internal.privilege (kind, object, privilege, capabilities) values
    ('table', 'agent_internal.holder', 'select', '{runner}'),
    ('table', 'agent_internal.owner_function', 'select', '{runner,viewer}'),
    ('table', 'agent_internal.privilege', 'select', '{runner}'),
    ('function', 'agent_internal.acts_as_owner(oid)', 'execute', '{runner}'),
    ('function', 'agent_internal.check_own_role(name, boolean)', 'execute', '{runner}'),
    ('function', 'agent_internal.denied_right(text, text, name)', 'execute', '{runner,viewer,developer,asker,member}'),
    ('function', 'agent_internal.misowned_functions()', 'execute', '{runner,viewer}'),
    ('function', 'agent_internal.own_capabilities()', 'execute', '{runner,viewer,developer,asker,member}'),
    ('function', 'agent_internal.own_roles()', 'execute', '{runner}'),
    ('function', 'agent_internal.restrict_definers()', 'execute', '{runner}'),
    ('function', 'agent_internal.role_trouble(name, boolean)', 'execute', '{runner}'),
    ('function', 'agent_internal.strange_members(name, boolean)', 'execute', '{runner}');
