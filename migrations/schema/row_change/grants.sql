insert into agent_internal.privilege (kind, object, privilege, capabilities) values
    ('table', 'agent.row_change', 'select', '{viewer}'),
    ('table', 'agent.row_change', 'select, insert', '{runner}'),
    ('table', 'agent.change_overview', 'select', '{runner,viewer}'),
    ('table', 'agent_internal.row_before', 'select, insert, delete', '{runner}'),
    ('function', 'agent.revert(bigint, boolean, boolean)', 'execute', '{runner,approver}'),
    ('function', 'agent_internal.acting_run(bigint)', 'execute', '{runner}'),
    ('function', 'agent_internal.await_visible(bigint[])', 'execute', '{runner}'),
    ('function', 'agent_internal.changes_to_revert(bigint)', 'execute', '{runner}'),
    ('function', 'agent_internal.has_policies_for(oid, name)', 'execute', '{runner}'),
    ('function', 'agent_internal.in_effect(bigint)', 'execute', '{runner,viewer}'),
    ('function', 'agent_internal.is_whole(agent.run)', 'execute', '{runner,viewer}'),
    ('function', 'agent_internal.key_in(jsonb, text[])', 'execute', '{runner}'),
    ('function', 'agent_internal.part_of(jsonb, text[])', 'execute', '{runner}'),
    ('function', 'agent_internal.readable_part(oid, jsonb, jsonb)', 'execute', '{runner,viewer}'),
    ('function', 'agent_internal.record_row_changes(jsonb)', 'execute', '{runner}'),
    ('function', 'agent_internal.recorded_columns(jsonb, oid)', 'execute', '{runner}');

insert into agent_internal.owner_function (function) values
    ('agent_internal.readable_part(oid, jsonb, jsonb)'),
    ('agent_signed.revert_run(text, bytea)');
