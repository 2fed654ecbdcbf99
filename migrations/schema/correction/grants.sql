insert into agent_internal.privilege (kind, object, privilege, capabilities) values
    ('table', 'agent.correction', 'select', '{viewer}'),
    ('table', 'agent.correction', 'select, insert', '{runner}'),
    ('table', 'agent.correction_overview', 'select', '{runner,viewer}'),
    ('table', 'agent.accuracy', 'select', '{runner,viewer}'),
    ('table', 'agent_internal.last_write', 'select, insert, update, delete', '{runner}'),
    ('function', 'agent_internal.correct(jsonb, boolean)', 'execute', '{runner}'),
    ('function', 'agent_internal.digest_of(text)', 'execute', '{runner}'),
    ('function', 'agent_internal.forget_writes(interval)', 'execute', '{runner}'),
    ('function', 'agent_internal.is_same_value(oid, text, text)', 'execute', '{runner}'),
    ('function', 'agent_internal.relation_in_wal(bigint, text, text)', 'execute', '{runner}'),
    ('function', 'agent_internal.take_corrections(jsonb)', 'execute', '{runner}'),
    ('function', 'agent_internal.take_writes(jsonb, pg_lsn[])', 'execute', '{runner}'),
    ('function', 'agent_internal.wrote(bigint, oid, text)', 'execute', '{runner}');
