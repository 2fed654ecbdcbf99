insert into agent_internal.privilege (kind, object, privilege, capabilities) values
    ('function', 'agent_internal.argument_names(regprocedure)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.check_columns(regclass, text[], text)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.column_schema(regclass, name)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.column_types(oid, text[], oid[])', 'execute', '{runner}'),
    ('function', 'agent_internal.identity_columns(regclass)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.is_utf8(text)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.json_columns(regclass)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.json_schema_of(oid, integer)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.json_schema_of(text, jsonb)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.key_columns(regclass)', 'execute', '{runner,viewer,developer}'),
    ('function', 'agent_internal.schema_of_extension(text)', 'execute', '{runner,viewer,developer,member}'),
    ('function', 'agent_internal.schemas_of(text)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.typed_columns(oid, text[])', 'execute', '{runner}');
