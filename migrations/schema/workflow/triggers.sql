create trigger define_workflow before insert on agent.workflow_version for each row execute function agent_internal.define_workflow();

create trigger list_workflow_parts after insert on agent.workflow_version for each row execute function agent_internal.list_workflow_parts();

-- walagent's own triggers act as who executes the statement: see agent_internal.own_triggers().
create trigger enter before insert or update or delete on agent.workflow_version for each statement execute function agent_internal.enter_trigger();
create trigger leave after insert or update or delete on agent.workflow_version for each statement execute function agent_internal.leave_trigger();
