insert into agent_internal.privilege (kind, object, privilege, capabilities) values
    ('table', 'agent.dataset', 'select', '{runner,viewer}'),
    ('table', 'agent.dataset_case', 'select', '{runner,viewer}'),
    ('table', 'agent.evaluation', 'select', '{runner,viewer}'),
    ('table', 'agent.evaluation_case', 'select', '{runner,viewer}'),
    ('table', 'agent.evaluation_overview', 'select', '{runner,viewer}'),
    ('function', 'agent.label_case(bigint, jsonb)', 'execute', '{runner,approver}'),
    ('function', 'agent_internal.charge_call(bigint, text, text, bigint, numeric)', 'execute', '{runner}'),
    ('function', 'agent_internal.correct_charge(bigint[], timestamp with time zone, bigint, numeric, bigint, numeric)', 'execute', '{runner}'),
    ('function', 'agent_internal.is_label(jsonb)', 'execute', '{runner}');
