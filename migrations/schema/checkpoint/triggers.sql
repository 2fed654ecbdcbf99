create trigger notify_of_gap
    after insert on agent.gap
    for each row execute function agent_internal.notify_of_gap();

create trigger inherit_tenant before insert on agent.gap_choice
    for each row execute function agent_internal.inherit_tenant('attachment');

-- walagent's own triggers act as who executes the statement: see agent_internal.own_triggers().
create trigger enter before insert or update or delete on agent.gap for each statement execute function agent_internal.enter_trigger();
create trigger leave after insert or update or delete on agent.gap for each statement execute function agent_internal.leave_trigger();
