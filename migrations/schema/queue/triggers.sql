create trigger inherit_tenant before insert on agent_internal.queue
    for each row when (new.attachment_id is not null) execute function agent_internal.inherit_tenant('attachment');

-- walagent's own triggers act as who executes the statement: see agent_internal.own_triggers().
create trigger enter before insert or update or delete on agent_internal.queue for each statement execute function agent_internal.enter_trigger();
create trigger leave after insert or update or delete on agent_internal.queue for each statement execute function agent_internal.leave_trigger();
