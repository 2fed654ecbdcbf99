insert into agent_internal.privilege (kind, object, privilege, capabilities) values
    ('table', 'agent_internal.published', 'select', '{runner,viewer}'),
    ('table', 'agent_internal.requested_table', 'select', '{runner,viewer}'),
    ('function', 'agent_internal.check_identities()', 'execute', '{runner}'),
    ('function', 'agent_internal.identity_problem(regclass)', 'execute', '{runner}'),
    ('function', 'agent_internal.publication_trouble()', 'execute', '{runner,viewer}'),
    ('function', 'agent_internal.request_tables(text, text[], text[], boolean[], boolean[])', 'execute', '{runner}'),
    ('function', 'agent_internal.tables_named(text[], text[], boolean[], boolean[])', 'execute', '{runner}');

insert into agent_internal.owner_function (function) values
    ('agent_internal.check_identities()'),
    ('agent_internal.request_tables(text, text[], text[], boolean[], boolean[])');
