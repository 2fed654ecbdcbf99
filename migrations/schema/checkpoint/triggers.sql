create trigger notify_of_gap
    after insert on agent.gap
    for each row execute function agent_internal.notify_of_gap();

create trigger inherit_tenant before insert on agent.gap_choice
    for each row execute function agent_internal.inherit_tenant('attachment');
