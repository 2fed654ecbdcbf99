create trigger check_attachment
    before insert or update on agent.attachment
    for each row execute function agent_internal.check_attachment();

create trigger freeze_attachment
    after insert or update on agent.attachment
    for each row execute function agent_internal.freeze_attachment();

create constraint trigger sync_queue
    after insert or update on agent.attachment
    deferrable initially deferred
    for each row execute function agent_internal.sync_queue();

create trigger check_detach
    before delete on agent.attachment
    for each row execute function agent_internal.check_detach();

create trigger forget_attachment
    after delete on agent.attachment
    for each row execute function agent_internal.delete_attachment_state();

create constraint trigger detach_queue
    after delete on agent.attachment
    deferrable initially deferred
    for each row execute function agent_internal.detach_queue();

create trigger refuse_truncate
    before truncate on agent.attachment
    for each statement execute function agent_internal.refuse_truncate();

create trigger warn_of_price
    after insert or update of agent, name on agent.attachment
    for each row execute function agent_internal.warn_of_price();

create trigger audit_change after insert or update or delete on agent.attachment
    for each row execute function agent_internal.audit_change('attachment', 'name', 'version,agent,run_as');

create trigger require_developer before insert or update or delete on agent.attachment
    for each statement execute function agent_internal.require_developer();

create trigger keep_agent_principal
    after insert or update of agent, relation on agent.attachment
    for each row when (new.turns is not null) execute function agent_internal.keep_agent_principal();

create trigger inherit_tenant before insert on agent.attachment_version
    for each row execute function agent_internal.inherit_tenant('attachment');

create trigger inherit_tenant before insert on agent.backfill
    for each row execute function agent_internal.inherit_tenant('attachment');

-- walagent's own triggers act as who executes the statement: see agent_internal.own_triggers().
create trigger enter before insert or update or delete on agent.attachment for each statement execute function agent_internal.enter_trigger();
create trigger leave after insert or update or delete on agent.attachment for each statement execute function agent_internal.leave_trigger();
