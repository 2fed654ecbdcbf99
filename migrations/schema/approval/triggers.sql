create trigger check_decision
    before update on agent.approval
    for each row execute function agent_internal.check_decision();

create trigger continue_decided
    after update of state on agent.approval
    for each row when (agent_internal.decision_of(new.state))
    execute function agent_internal.continue_decided();

create trigger inherit_tenant before insert on agent.approval for each row execute function agent_internal.inherit_tenant('run');

create trigger notify_of_approval
    after insert on agent.approval
    for each row execute function agent_internal.notify_of_approval();

-- walagent's own triggers act as who executes the statement: see agent_internal.own_triggers().
create trigger enter before insert or update or delete on agent.approval for each statement execute function agent_internal.enter_trigger();
create trigger leave after insert or update or delete on agent.approval for each statement execute function agent_internal.leave_trigger();
