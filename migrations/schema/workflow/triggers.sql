create trigger define_workflow before insert on agent.workflow_version for each row execute function agent_internal.define_workflow();

create trigger list_workflow_parts after insert on agent.workflow_version for each row execute function agent_internal.list_workflow_parts();
