create trigger require_scope before insert or update or delete on agent.thread
    for each statement execute function agent_internal.require_scope();

create trigger keep_joined after insert on agent.member for each row execute function agent_internal.keep_members();

create trigger keep_left before delete on agent.member for each row execute function agent_internal.keep_members();

create trigger require_scope before insert or update or delete on agent.member
    for each statement execute function agent_internal.require_scope();

create trigger require_scope before insert or update or delete on agent.event
    for each statement execute function agent_internal.require_scope();

create trigger require_scope before insert or update or delete on agent.observation
    for each statement execute function agent_internal.require_scope();

-- walagent's own triggers act as who executes the statement: see agent_internal.own_triggers().
create trigger enter before insert or update or delete on agent.thread for each statement execute function agent_internal.enter_trigger();
create trigger leave after insert or update or delete on agent.thread for each statement execute function agent_internal.leave_trigger();
create trigger enter before insert or update or delete on agent.member for each statement execute function agent_internal.enter_trigger();
create trigger leave after insert or update or delete on agent.member for each statement execute function agent_internal.leave_trigger();
create trigger enter before insert or update or delete on agent.event for each statement execute function agent_internal.enter_trigger();
create trigger leave after insert or update or delete on agent.event for each statement execute function agent_internal.leave_trigger();
create trigger enter before insert or update or delete on agent.observation for each statement execute function agent_internal.enter_trigger();
create trigger leave after insert or update or delete on agent.observation for each statement execute function agent_internal.leave_trigger();
