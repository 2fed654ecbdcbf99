insert into agent_internal.privilege (kind, object, privilege, capabilities) values
    ('table', 'agent.audit', 'select', '{runner,viewer}'),
    ('table', 'agent_internal.audit_entry', 'select', '{runner}'),
    ('table', 'agent_internal.audit_head', 'select', '{runner,viewer}'),
    ('sequence', 'agent_internal.audit_entry_id_seq', 'usage', '{runner,developer}'),
    ('function', 'agent_internal.audit(text, text, jsonb, text)', 'execute', '{runner}'),
    ('function', 'agent_internal.audit_digest(agent.audit)', 'execute', '{runner}'),
    ('function', 'agent_internal.audit_refused_request(text, text)', 'execute', '{runner}'),
    ('function', 'agent_internal.number_audit()', 'execute', '{runner}'),
    ('function', 'agent_internal.number_left_entries()', 'execute', '{runner}'),
    ('function', 'agent_internal.seal(text)', 'execute', '{runner}');

insert into agent_internal.owner_function (function) values
    ('agent_internal.append_audit()'),
    ('agent_internal.audit_change()'),
    ('agent_internal.mark_audit_entry()'),
    ('agent_internal.number_entries(text)'),
    ('agent_internal.number_left_entries()');
