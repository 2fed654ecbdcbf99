insert into agent_internal.privilege (kind, object, privilege, capabilities) values
    ('table', 'agent.egress_rule', 'select', '{runner,viewer}'),
    ('table', 'agent.egress_rule', 'select, insert, update, delete', '{developer}'),
    ('table', 'agent.policy', 'select', '{runner,viewer}'),
    ('table', 'agent.policy', 'select, insert, update, delete', '{developer}'),
    ('function', 'agent_internal.check_egress(text, text, text, jsonb)', 'execute', '{runner}'),
    ('function', 'agent_internal.checked_policy(text, agent.policy, agent.policy, name[])', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.decide_policy(text, text, jsonb, text)', 'execute', '{runner}'),
    ('function', 'agent_internal.evaluate(agent.policy, text, jsonb)', 'execute', '{runner}'),
    ('function', 'agent_internal.make_policy_trampolines()', 'execute', '{runner}'),
    ('function', 'agent_internal.makers_of_rules(text[])', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.may_overrule(name)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.overrules(name, name)', 'execute', '{runner,developer}');

insert into agent_internal.owner_function (function) values
    ('agent_internal.check_egress(text, text, text, jsonb)'),
    ('agent_internal.decide_policy(text, text, jsonb, text)'),
    ('agent_signed.check_egress(text, bytea)'),
    ('agent_signed.decide_policy(text, bytea)');
