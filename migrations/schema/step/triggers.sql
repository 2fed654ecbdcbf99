create trigger post_call after insert on agent.step for each row when (new.kind = 'result') execute function agent_internal.post_call();

create trigger audit_refusal after insert on agent.step
    for each row when (new.kind = 'result' and new.content ? 'denied') execute function agent_internal.audit_refusal();

-- walagent's own triggers act as who executes the statement: see agent_internal.own_triggers().
create trigger enter before insert or update or delete on agent.step for each statement execute function agent_internal.enter_trigger();
create trigger leave after insert or update or delete on agent.step for each statement execute function agent_internal.leave_trigger();
