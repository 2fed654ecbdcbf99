insert into agent_internal.privilege (kind, object, privilege, capabilities) values
    ('table', 'agent.approval', 'select', '{viewer}'),
    ('table', 'agent.approval', 'select, insert, update', '{runner}'),
    ('table', 'agent.approval', 'update (state, reason, edited)', '{approver}'),
    ('table', 'agent.pending_approval', 'select', '{runner,viewer}'),
    ('sequence', 'agent.approval_id_seq', 'usage', '{runner,developer}'),
    ('function', 'agent.answer(bigint, text)', 'execute', '{approver}'),
    ('function', 'agent.approve(bigint)', 'execute', '{approver}'),
    ('function', 'agent.approve(bigint, jsonb)', 'execute', '{runner,approver}'),
    ('function', 'agent.approve_calls(bigint[])', 'execute', '{runner,approver}'),
    ('function', 'agent.reject(bigint, text)', 'execute', '{approver}'),
    ('function', 'agent.reject_calls(bigint[], text)', 'execute', '{approver}'),
    ('function', 'agent_internal.approves_risk(text, agent.attachment)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.ask_approval(bigint, bigint, integer, text, text, jsonb, name, interval, bigint, numeric)', 'execute', '{runner}'),
    ('function', 'agent_internal.await_approval(agent.run, integer, text, text, jsonb, name, interval, bigint, numeric)', 'execute', '{runner}'),
    ('function', 'agent_internal.call_digest(bigint, text, text, jsonb)', 'execute', '{runner,approver}'),
    ('function', 'agent_internal.check_edit(agent.approval, jsonb)', 'execute', '{runner,approver}'),
    ('function', 'agent_internal.decide(bigint, text, text)', 'execute', '{approver}'),
    ('function', 'agent_internal.decision_of(text)', 'execute', '{runner,approver}'),
    ('function', 'agent_internal.expire_approvals()', 'execute', '{runner}'),
    ('function', 'agent_internal.insert_approval(agent.run, text, text, jsonb, name, interval)', 'execute', '{runner}'),
    ('function', 'agent_internal.is_agent()', 'execute', '{runner,approver}'),
    ('function', 'agent_internal.principals_of(name)', 'execute', '{runner}'),
    ('function', 'agent_internal.requesters_of(agent.run)', 'execute', '{runner}'),
    ('function', 'agent_internal.risk_rank(text)', 'execute', '{runner,viewer}');

insert into agent_internal.owner_function (function) values
    ('agent_internal.apply_tenant_policy()'),
    ('agent_internal.continue_decided()');
