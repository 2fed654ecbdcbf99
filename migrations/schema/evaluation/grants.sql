insert into agent_internal.privilege (kind, object, privilege, capabilities) values
    ('table', 'agent.dataset', 'select', '{runner,viewer}'),
    ('table', 'agent.dataset_case', 'select', '{runner,viewer}'),
    ('table', 'agent.evaluation', 'select', '{runner,viewer}'),
    ('table', 'agent.evaluation_case', 'select', '{runner,viewer}'),
    ('table', 'agent.evaluation_overview', 'select', '{runner,viewer}'),
    ('function', 'agent.label_case(bigint, jsonb)', 'execute', '{runner,approver}'),
    ('table', 'agent_internal.evaluation_charge', 'select', '{viewer}'),
    ('table', 'agent_internal.evaluation_charge', 'select, insert, update, delete', '{runner}'),
    ('function', 'agent_internal.is_label(jsonb)', 'execute', '{runner}'),
    ('function', 'agent_internal.prune_evaluations(interval)', 'execute', '{runner}'),
    ('function', 'agent_internal.release_charges(bigint[])', 'execute', '{runner}'),
    ('function', 'agent_internal.reserve_charge(bigint, text, text, bigint, numeric)', 'execute', '{runner}'),
    ('function', 'agent_internal.settle_charge(bigint, bigint, numeric)', 'execute', '{runner}');
