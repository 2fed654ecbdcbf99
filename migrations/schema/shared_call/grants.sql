-- Nobody reads the tables but these functions.
insert into agent_internal.privilege (kind, object, privilege, capabilities) values
    ('function', 'agent_internal.check_reuse(agent.agent, jsonb, text[])', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.forget_calls(integer)', 'execute', '{runner}'),
    ('function', 'agent_internal.share_call(bigint, bigint, bytea)', 'execute', '{runner}'),
    ('function', 'agent_internal.wake_waiting(bigint)', 'execute', '{runner}');

insert into agent_internal.owner_function (function) values
    ('agent_internal.forget_calls(integer)'),
    ('agent_internal.share_call(bigint, bigint, bytea)'),
    ('agent_internal.wake_waiting(bigint)');
