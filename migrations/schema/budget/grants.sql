insert into agent_internal.privilege (kind, object, privilege, capabilities) values
    ('table', 'agent.budget', 'select', '{runner,viewer}'),
    ('table', 'agent.budget_overview', 'select', '{runner,viewer}'),
    ('table', 'agent.spend', 'select', '{viewer}'),
    ('table', 'agent.spend', 'select, insert, update, delete', '{runner}'),
    ('table', 'agent.unpriced', 'select', '{runner,viewer}'),
    ('table', 'agent_internal.budget_use', 'select', '{viewer}'),
    ('table', 'agent_internal.budget_use', 'select, update', '{runner}'),
    ('sequence', 'agent.budget_id_seq', 'usage', '{runner,developer}'),
    ('function', 'agent_internal.period_end(text, timestamp with time zone)', 'execute', '{runner,viewer}'),
    ('function', 'agent_internal.period_start(text, timestamp with time zone)', 'execute', '{runner,viewer}'),
    ('function', 'agent_internal.question_refusal(agent.budget, bigint, bigint, numeric)', 'execute', '{runner}'),
    ('function', 'agent_internal.refusal(agent.budget, agent_internal.budget_use, text, bigint, numeric, timestamp with time zone)', 'execute', '{runner}'),
    ('function', 'agent_internal.release(bigint, bigint, integer)', 'execute', '{runner}'),
    ('function', 'agent_internal.release_lost()', 'execute', '{runner}'),
    ('function', 'agent_internal.reserve(bigint, bigint, integer, text, bigint, numeric, text, text)', 'execute', '{runner,asker}'),
    ('function', 'agent_internal.reserve_call(bigint, bigint, integer, text, bigint, numeric, text, text)', 'execute', '{runner}'),
    ('function', 'agent_internal.settle(bigint, bigint, integer, integer[], numeric)', 'execute', '{runner}'),
    ('function', 'agent_internal.short_number(numeric)', 'execute', '{runner}'),
    ('function', 'agent_internal.wait_for_budget(bigint, bigint, jsonb, bigint, numeric)', 'execute', '{runner,asker}');

insert into agent_internal.owner_function (function) values
    ('agent_internal.check_budget()'),
    ('agent_internal.delete_budget_use()'),
    ('agent_internal.notify_budget()'),
    ('agent_internal.open_budget()'),
    ('agent_internal.reserve(bigint, bigint, integer, text, bigint, numeric, text, text)'),
    ('agent_internal.wait_for_budget(bigint, bigint, jsonb, bigint, numeric)'),
    ('agent_internal.warn_of_price()');
