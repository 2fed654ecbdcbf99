insert into agent_internal.privilege (kind, object, privilege, capabilities) values
    ('table', 'agent.model', 'select', '{runner,viewer,developer,asker}'),
    ('function', 'agent_internal.check_cascade(agent.agent, jsonb, jsonb)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.check_cascade(text[], text, text, text)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.check_fallback(text, text, text)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.check_model(agent.agent, jsonb)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.check_model(text, text, text, boolean)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.check_tier(agent.agent)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.check_rows_per_request(agent.agent, jsonb)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.model_of(text, text)', 'execute', '{runner,viewer,developer,asker,member}'),
    ('function', 'agent_internal.only_embeds(agent.model)', 'execute', '{runner,viewer,developer}'),
    ('function', 'agent_internal.stages(text[])', 'execute', '{runner,viewer,developer}');

insert into agent_internal.owner_function (function) values
    ('agent_internal.check_credential()'),
    ('agent_internal.check_kept_embeddings()'),
    ('agent_internal.wake_priced()');
