create trigger check_tool
    before insert or update on agent.tool
    for each row execute function agent_internal.check_tool();

create trigger check_http_tool
    before insert or update on agent.tool
    for each row when (new.kind = 'http' and new.http is not null) execute function agent_internal.check_http_tool();

create trigger audit_change after insert or update or delete on agent.tool
    for each row execute function agent_internal.audit_change('tool', 'name', 'kind,effect,risk,approval,enabled');

-- After check_http_tool, which completes the row.
create trigger count_version before insert or update on agent.tool for each row execute function agent_internal.count_tool_version();

create trigger freeze_version after insert or delete on agent.tool for each row execute function agent_internal.freeze_tool();

create trigger freeze_change after update on agent.tool
    for each row when (old.version <> new.version) execute function agent_internal.freeze_tool();

create trigger check_llm_tool before insert or update on agent.tool
    for each row when (new.kind = 'llm' and new.llm is not null) execute function agent_internal.check_llm_tool();

create trigger audit_change after insert or update or delete on agent.role_tool
    for each row execute function agent_internal.audit_change('role_tool', 'role,tool', '');

create trigger check_role_tool before insert or update or delete on agent.role_tool
    for each row execute function agent_internal.check_role_tool();

create trigger check_schemas before insert or update of input_schema, output_schema on agent.tool
    for each row when (new.kind not in ('mcp', 'python')) execute function agent_internal.check_schemas();

-- walagent's own triggers act as who executes the statement: see agent_internal.own_triggers().
create trigger enter before insert or update or delete on agent.tool for each statement execute function agent_internal.enter_trigger();
create trigger leave after insert or update or delete on agent.tool for each statement execute function agent_internal.leave_trigger();
create trigger enter before insert or update or delete on agent.role_tool for each statement execute function agent_internal.enter_trigger();
create trigger leave after insert or update or delete on agent.role_tool for each statement execute function agent_internal.leave_trigger();
