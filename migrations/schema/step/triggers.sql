create trigger post_call after insert on agent.step for each row when (new.kind = 'result' and not new.content ? 'kept') execute function agent_internal.post_call();

create trigger audit_refusal after insert on agent.step
    for each row when (new.kind = 'result' and new.content ? 'denied' and not new.content ? 'kept') execute function agent_internal.audit_refusal();
