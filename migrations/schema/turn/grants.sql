insert into agent_internal.privilege (kind, object, privilege, capabilities) values
    ('function', 'agent.attach_to_threads(text, text, text, text, text, integer, text, jsonb, text[], interval, integer, name, text, text[], integer, text)', 'execute', '{runner,developer}'),
    ('function', 'agent.use_newest_version(name, uuid)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.admit_turn(bigint, jsonb)', 'execute', '{runner}'),
    ('function', 'agent_internal.agents_of_events(jsonb)', 'execute', '{runner}'),
    ('function', 'agent_internal.begin_turn(bigint, bigint, jsonb)', 'execute', '{runner}'),
    ('function', 'agent_internal.cancel_turns(text, uuid, name)', 'execute', '{runner}'),
    ('function', 'agent_internal.checked_turns(agent.attachment)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.corrected(agent.event)', 'execute', '{runner}'),
    ('function', 'agent_internal.end_turn(bigint, text, bigint, bigint)', 'execute', '{runner}'),
    ('function', 'agent_internal.is_absorbed(bigint, text)', 'execute', '{runner}'),
    ('function', 'agent_internal.look_summary(bigint, bigint)', 'execute', '{runner}'),
    ('function', 'agent_internal.look_turn(bigint, bigint)', 'execute', '{runner}'),
    ('function', 'agent.interrupt(uuid, text, uuid)', 'execute', '{runner,member}'),
    ('function', 'agent_internal.hint_turns(text, uuid, boolean)', 'execute', '{runner}'),
    ('function', 'agent_internal.post_cut_off(bigint, text)', 'execute', '{runner}'),
    ('function', 'agent_internal.said_meanwhile(bigint, bigint)', 'execute', '{runner}'),
    ('function', 'agent_internal.release_turns(text, uuid)', 'execute', '{runner}'),
    ('function', 'agent_internal.request_summary(agent.run, uuid, bigint)', 'execute', '{runner}'),
    ('function', 'agent_internal.store_summary(bigint, text, bigint)', 'execute', '{runner}'),
    ('function', 'agent_internal.turn_function(text, text, name, text)', 'execute', '{runner,developer}');

insert into agent_internal.owner_function (function) values
    ('agent_internal.post_call()');
