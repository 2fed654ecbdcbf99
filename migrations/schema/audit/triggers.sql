create trigger refuse_change before update or delete on agent.audit
    for each row execute function agent_internal.refuse_change_of_audit();

create trigger refuse_truncate before truncate on agent.audit
    for each statement execute function agent_internal.refuse_change_of_audit();

create constraint trigger mark_audit_entry
    after insert on agent_internal.audit_entry
    deferrable initially deferred
    for each row execute function agent_internal.mark_audit_entry();

create constraint trigger append_audit
    after update of due on agent_internal.audit_entry
    deferrable initially deferred
    for each row execute function agent_internal.append_audit();

-- walagent's own triggers act as who executes the statement: see agent_internal.own_triggers().
create trigger enter before insert or update or delete on agent.audit for each statement execute function agent_internal.enter_trigger();
create trigger leave after insert or update or delete on agent.audit for each statement execute function agent_internal.leave_trigger();
