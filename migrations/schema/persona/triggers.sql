create trigger audit_change after insert or update or delete on agent.persona
    for each row execute function agent_internal.audit_change('persona', 'name', 'version');

create trigger check_persona before insert or delete on agent.persona
    for each row execute function agent_internal.check_persona();

create trigger check_change before update on agent.persona
    for each row when (old.* is distinct from new.*) execute function agent_internal.check_persona();

create trigger freeze_persona after insert on agent.persona
    for each row execute function agent_internal.freeze_persona();

create trigger freeze_change after update on agent.persona
    for each row when (old.version <> new.version) execute function agent_internal.freeze_persona();

create trigger touch_agents after update on agent.persona
    for each row when (old.version <> new.version) execute function agent_internal.touch_agents();

create trigger require_developer before insert or update or delete on agent.persona
    for each statement execute function agent_internal.require_developer();

create trigger check_parameters before insert or update of parameters on agent.persona
    for each row when (jsonb_typeof(new.parameters) = 'object') execute function agent_internal.check_parameters();

-- walagent's own triggers act as who executes the statement: see agent_internal.own_triggers().
create trigger enter before insert or update or delete on agent.persona for each statement execute function agent_internal.enter_trigger();
create trigger leave after insert or update or delete on agent.persona for each statement execute function agent_internal.leave_trigger();
