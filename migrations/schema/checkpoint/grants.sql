insert into agent_internal.privilege (kind, object, privilege, capabilities) values
    ('table', 'agent.checkpoint', 'select', '{viewer}'),
    ('table', 'agent.checkpoint', 'select, insert, update, delete', '{runner}'),
    ('table', 'agent.gap', 'select', '{viewer}'),
    ('table', 'agent.gap', 'select, insert, update, delete', '{runner}'),
    ('table', 'agent.gap_choice', 'select', '{viewer}'),
    ('table', 'agent.gap_choice', 'select, insert, update, delete', '{runner}'),
    ('sequence', 'agent.gap_id_seq', 'usage', '{runner,developer}'),
    ('function', 'agent_internal.abandon_slot(text, bigint, text)', 'execute', '{runner}'),
    ('function', 'agent_internal.advance_checkpoint(text, bigint, pg_lsn, pg_lsn, boolean, timestamp with time zone)', 'execute', '{runner}'),
    ('function', 'agent_internal.take_checkpoint(text, text)', 'execute', '{runner}');
