insert into agent_internal.privilege (kind, object, privilege, capabilities) values
    ('table', 'agent.step', 'select', '{viewer}'),
    ('table', 'agent.step', 'select, insert', '{runner}'),
    ('function', 'agent_internal.begin_call(bigint, bigint, integer, text, text, boolean)', 'execute', '{runner}'),
    ('function', 'agent_internal.begin_write(bigint, bigint, boolean)', 'execute', '{runner}'),
    ('function', 'agent_internal.call_key(bigint, text)', 'execute', '{runner}'),
    ('function', 'agent_internal.extend_lease(bigint, bigint, interval)', 'execute', '{runner}'),
    ('function', 'agent_internal.fence(bigint, bigint)', 'execute', '{runner}'),
    ('function', 'agent_internal.insert_step(bigint, integer, text, jsonb, integer[], numeric, integer)', 'execute', '{runner}'),
    ('function', 'agent_internal.lock_run(bigint, bigint)', 'execute', '{runner}'),
    ('function', 'agent_internal.record_step(bigint, bigint, integer, text, jsonb, integer[], numeric, integer, integer)', 'execute', '{runner,asker}'),
    ('function', 'agent_internal.sign_write(text, xid8)', 'execute', '{runner}'),
    ('function', 'agent_internal.signed(text, bytea)', 'execute', '{runner}'),
    ('function', 'agent_internal.is_for_tools()', 'execute', '{runner}'),
    ('function', 'agent_internal.tools_login()', 'execute', '{runner}'),
    ('function', 'agent_internal.transaction_name()', 'execute', '{runner}');

insert into agent_internal.owner_function (function) values
    ('agent_internal.begin_call(bigint, bigint, integer, text, text, boolean)'),
    ('agent_internal.call_key(bigint, text)'),
    ('agent_internal.record_step(bigint, bigint, integer, text, jsonb, integer[], numeric, integer, integer)');
