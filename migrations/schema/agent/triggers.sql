create trigger touch_attachments
    after update on agent.agent
    for each row when (old.* is distinct from new.*) execute function agent_internal.touch_attachments();

create trigger count_version
    before update on agent.agent
    for each row when (old.* is distinct from new.*) execute function agent_internal.count_version();

create trigger audit_change after insert or update or delete on agent.agent
    for each row execute function agent_internal.audit_change('agent', 'name', 'version');

create trigger bind_model before insert or update of model, fallback, cascade, tenant, model_scope on agent.agent
    for each row execute function agent_internal.bind_model();

create trigger require_developer before insert or update or delete on agent.agent
    for each statement execute function agent_internal.require_developer();

create trigger check_agent before insert or update on agent.agent
    for each row when (new.persona is not null) execute function agent_internal.check_agent();

create trigger freeze_agent after insert or delete on agent.agent
    for each row execute function agent_internal.freeze_agent();

create trigger freeze_change after update on agent.agent
    for each row when (old.version <> new.version) execute function agent_internal.freeze_agent();

create trigger check_deleted_agent before delete on agent.agent for each row execute function agent_internal.check_deleted_agent();

create trigger check_parameters before insert or update of parameters on agent.agent
    for each row when (jsonb_typeof(new.parameters) = 'object') execute function agent_internal.check_parameters();

create trigger check_examples before insert or update of examples on agent.agent
    for each row when (jsonb_typeof(new.examples) = 'array') execute function agent_internal.check_examples();

create trigger check_name before insert or update of tenant, name on agent.agent
    for each row execute function agent_internal.check_name();

create trigger check_login_name before insert or update of tenant, name on agent.agent
    for each row when (new.tenant = 'default') execute function agent_internal.check_login_name();

create trigger keep_agent_names after insert or update of tenant, name or delete on agent.agent
    for each row execute function agent_internal.keep_agent_names();

create trigger check_principal_name before insert or update of tenant, name, kind on agent.principal
    for each row when (new.kind <> 'agent') execute function agent_internal.check_principal_name();

create trigger check_agents_of_nodes after insert on agent.workflow_version
    for each row execute function agent_internal.check_agents_of_nodes();

-- walagent's own triggers act as who executes the statement: see agent_internal.own_triggers().
create trigger enter before insert or update or delete on agent.agent for each statement execute function agent_internal.enter_trigger();
create trigger leave after insert or update or delete on agent.agent for each statement execute function agent_internal.leave_trigger();
