create trigger check_policy before insert or update on agent.policy
    for each row execute function agent_internal.check_policy();

create trigger keep_policy before update or delete on agent.policy
    for each row execute function agent_internal.keep_policy();

create trigger audit_change after insert or update or delete on agent.policy
    for each row execute function agent_internal.audit_change('policy', 'name', 'point,phase,action,enabled,run_as');

create trigger require_developer before insert or update or delete on agent.policy
    for each statement execute function agent_internal.require_developer();

create trigger keep_egress_rules before insert or update or delete on agent.egress_rule
    for each row execute function agent_internal.keep_egress_rules();

create trigger audit_change after insert or update or delete on agent.egress_rule
    for each row execute function agent_internal.audit_change('egress_rule', 'scheme,host,port', 'methods');

create trigger require_developer before insert or update or delete on agent.egress_rule
    for each statement execute function agent_internal.require_developer();

-- walagent's own triggers act as who executes the statement: see agent_internal.own_triggers().
create trigger enter before insert or update or delete on agent.policy for each statement execute function agent_internal.enter_trigger();
create trigger leave after insert or update or delete on agent.policy for each statement execute function agent_internal.leave_trigger();
create trigger enter before insert or update or delete on agent.egress_rule for each statement execute function agent_internal.enter_trigger();
create trigger leave after insert or update or delete on agent.egress_rule for each statement execute function agent_internal.leave_trigger();
