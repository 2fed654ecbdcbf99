insert into agent_internal.privilege (kind, object, privilege, capabilities) values
    ('table', 'agent_internal.queue', 'select', '{viewer}'),
    ('table', 'agent_internal.queue', 'select, update', '{runner}'),
    ('function', 'agent_internal.check_queue()', 'execute', '{runner}'),
    ('function', 'agent_internal.queue_of(text, text, text)', 'execute', '{runner}'),
    ('function', 'agent_internal.queue_room_of(text)', 'execute', '{runner}'),
    ('function', 'agent_internal.room_of(text, boolean)', 'execute', '{runner}'),
    ('function', 'agent_internal.wake_workers()', 'execute', '{runner}');

insert into agent_internal.owner_function (function) values
    ('agent_internal.detach_queue()'),
    ('agent_internal.notify_workers()'),
    ('agent_internal.sync_queue()');
