insert into agent_internal.privilege (kind, object, privilege, capabilities) values
    ('function', 'agent_internal.become(name)', 'execute', '{runner}'),
    ('function', 'agent_internal.check_reader(name, oid, text[])', 'execute', '{runner}'),
    ('function', 'agent_internal.close_trampoline(name)', 'execute', '{runner}'),
    ('function', 'agent_internal.go_through(text, text, jsonb, text[], text, boolean, boolean)', 'execute', '{runner}'),
    ('function', 'agent_internal.make_trampoline(name)', 'execute', '{runner}'),
    ('function', 'agent_internal.check_member(name)', 'execute', '{runner}'),
    ('function', 'agent_internal.make_trampoline_of_member(name)', 'execute', '{runner,developer,asker}'),
    ('function', 'agent_internal.open_trampoline(name)', 'execute', '{runner}'),
    ('function', 'agent_internal.read_as_member(name, text, text)', 'execute', '{asker}'),
    ('function', 'agent_internal.trampoline_body()', 'execute', '{runner}'),
    ('function', 'agent_internal.trampoline_of(name)', 'execute', '{runner}');

insert into agent_internal.owner_function (function) values
    ('agent_internal.close_trampoline(name)'),
    ('agent_internal.make_trampoline_of_member(name)'),
    ('agent_internal.open_trampoline(name)'),
    ('agent_internal.read_as_member(name, text, text)'),
    ('agent_signed.call_tool(text, bytea)'),
    ('agent_signed.close_step(text, bytea)'),
    ('agent_signed.execute_as(text, bytea)'),
    ('agent_signed.open_step(text, bytea)'),
    ('agent_signed.read_as(text, bytea, text[])'),
    ('agent_signed.write_as(text, bytea)');
