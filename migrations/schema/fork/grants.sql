insert into agent_internal.privilege (kind, object, privilege, capabilities) values
    ('function', 'agent.fork(bigint, integer, text, jsonb, jsonb, boolean)', 'execute', '{runner,approver}'),
    ('function', 'agent_internal.check_fork_author(name)', 'execute', '{runner}'),
    ('function', 'agent_internal.check_written(jsonb, text, jsonb)', 'execute', '{runner}'),
    ('function', 'agent_internal.fork_point(bigint, integer)', 'execute', '{runner}'),
    ('function', 'agent_internal.with_arguments(jsonb, text, jsonb)', 'execute', '{runner}'),
    ('function', 'agent_internal.written_parts(jsonb, integer, jsonb)', 'execute', '{runner}');
