create trigger audit_change after insert or update or delete on agent.channel
    for each row execute function agent_internal.audit_change('channel', 'name', 'kind,enabled,principal');

create trigger audit_change after insert or update or delete on agent.notification
    for each row execute function agent_internal.audit_change('notification', 'event,channel', '');

create trigger notify_workers
    after update of run_id on agent.outbox
    for each row execute function agent_internal.notify_workers();

-- walagent's own triggers act as who executes the statement: see agent_internal.own_triggers().
create trigger enter before insert or update or delete on agent.channel for each statement execute function agent_internal.enter_trigger();
create trigger leave after insert or update or delete on agent.channel for each statement execute function agent_internal.leave_trigger();
create trigger enter before insert or update or delete on agent.notification for each statement execute function agent_internal.enter_trigger();
create trigger leave after insert or update or delete on agent.notification for each statement execute function agent_internal.leave_trigger();
