create trigger check_budget
    before insert or update of agent, attachment, model, asker on agent.budget
    for each row execute function agent_internal.check_budget();

create trigger open_budget
    after insert on agent.budget
    for each row execute function agent_internal.open_budget();

create constraint trigger forget_budget
    after delete on agent.budget
    deferrable initially deferred
    for each row execute function agent_internal.delete_budget_use();

create trigger count_budget_version
    before update on agent.budget
    for each row execute function agent_internal.count_budget_version();

create constraint trigger tell_of_budget
    after insert or update or delete on agent.budget
    deferrable initially deferred
    for each row execute function agent_internal.notify_budget();

create trigger warn_of_price
    after insert or update on agent.budget
    for each row execute function agent_internal.warn_of_price();

create trigger audit_change after insert or update or delete on agent.budget
    for each row execute function agent_internal.audit_change('budget', 'name', '');

create trigger inherit_tenant before insert on agent_internal.budget_use
    for each row execute function agent_internal.inherit_tenant('budget');

-- walagent's own triggers act as who executes the statement: see agent_internal.own_triggers().
create trigger enter before insert or update or delete on agent.budget for each statement execute function agent_internal.enter_trigger();
create trigger leave after insert or update or delete on agent.budget for each statement execute function agent_internal.leave_trigger();
