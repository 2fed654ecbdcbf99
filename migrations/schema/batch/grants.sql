-- Prompts and replies are in items: nobody reads them but these functions.
insert into agent_internal.privilege (kind, object, privilege, capabilities) values
    ('table', 'agent.batch', 'select', '{runner,viewer}'),
    ('function', 'agent_internal.await_batch(bigint, bigint, integer, integer, text, text, text, bigint, numeric)', 'execute', '{runner}'),
    ('function', 'agent_internal.batch_reply(bigint, bigint, integer, bigint, numeric)', 'execute', '{runner}'),
    ('function', 'agent_internal.begin_batch(bigint, bigint)', 'execute', '{runner}'),
    ('function', 'agent_internal.claim_batch(interval)', 'execute', '{runner}'),
    ('function', 'agent_internal.end_batch(bigint, bigint, text, boolean, boolean)', 'execute', '{runner}'),
    ('function', 'agent_internal.end_item(bigint, integer)', 'execute', '{runner}'),
    ('function', 'agent_internal.form_batches(integer, bigint, interval)', 'execute', '{runner}'),
    ('function', 'agent_internal.hold_batch(bigint, bigint, interval)', 'execute', '{runner}'),
    ('function', 'agent_internal.is_in_batch(bigint, bigint, integer)', 'execute', '{runner,viewer}'),
    ('function', 'agent_internal.longest_batch()', 'execute', '{runner}'),
    ('function', 'agent_internal.postpone_batch(bigint, bigint, double precision, text)', 'execute', '{runner}'),
    ('function', 'agent_internal.prune_batches(interval)', 'execute', '{runner}'),
    ('function', 'agent_internal.store_replies(bigint, bigint, jsonb)', 'execute', '{runner}'),
    ('function', 'agent_internal.submit_batch(bigint, bigint, text, double precision)', 'execute', '{runner}'),
    ('function', 'agent_internal.wake_replied(bigint[])', 'execute', '{runner}');

insert into agent_internal.owner_function (function) values
    ('agent_internal.await_batch(bigint, bigint, integer, integer, text, text, text, bigint, numeric)'),
    ('agent_internal.batch_reply(bigint, bigint, integer, bigint, numeric)'),
    ('agent_internal.begin_batch(bigint, bigint)'),
    ('agent_internal.claim_batch(interval)'),
    ('agent_internal.end_batch(bigint, bigint, text, boolean, boolean)'),
    ('agent_internal.end_item(bigint, integer)'),
    ('agent_internal.form_batches(integer, bigint, interval)'),
    ('agent_internal.hold_batch(bigint, bigint, interval)'),
    ('agent_internal.is_in_batch(bigint, bigint, integer)'),
    ('agent_internal.postpone_batch(bigint, bigint, double precision, text)'),
    ('agent_internal.prune_batches(interval)'),
    ('agent_internal.store_replies(bigint, bigint, jsonb)'),
    ('agent_internal.submit_batch(bigint, bigint, text, double precision)'),
    ('agent_internal.wake_replied(bigint[])');
