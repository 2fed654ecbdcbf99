insert into agent_internal.privilege (kind, object, privilege, capabilities) values
    ('table', 'agent.glossary', 'select, insert, update, delete', '{runner,asker}'),
    ('table', 'agent.question', 'select', '{viewer}'),
    ('table', 'agent.question', 'select, insert, update, delete', '{runner}'),
    ('table', 'agent.question', 'select, update (answer)', '{asker}'),
    ('table', 'agent.session', 'select', '{viewer}'),
    ('table', 'agent.session', 'select, insert, update, delete', '{runner}'),
    ('table', 'agent.session', 'select, update (summary, summary_upto)', '{asker}'),
    ('table', 'agent.verified_query', 'select, insert (question, sql), update (question, sql, saved_at), delete', '{runner,asker}'),
    ('table', 'agent_internal.schema_index', 'select, insert, update, delete', '{runner,asker}'),
    ('table', 'agent_internal.schema_table', 'select, insert, update, delete', '{runner,asker}'),
    ('sequence', 'agent.question_id_seq', 'usage', '{runner,developer}'),
    ('sequence', 'agent.verified_query_id_seq', 'usage', '{runner,developer}'),
    ('function', 'agent.delete_session(text)', 'execute', '{runner,asker}'),
    ('function', 'agent_internal.ask(text, text, jsonb)', 'execute', '{runner,asker}'),
    ('function', 'agent_internal.end_abandoned_questions()', 'execute', '{runner}'),
    ('function', 'agent_internal.is_member_of(name)', 'execute', '{runner,asker}'),
    ('function', 'agent_internal.resume_session(text)', 'execute', '{runner,asker}');

insert into agent_internal.owner_function (function) values
    ('agent_internal.ask(text, text, jsonb)'),
    ('agent_internal.resume_session(text)');
