create trigger keep_logins after update of active on agent.tenant for each row execute function agent_internal.keep_logins();

create trigger audit_change after insert or update or delete on agent.tenant
    for each row execute function agent_internal.audit_change('tenant', 'name', 'active');

create trigger apply_tenant_policy
    after update of settings on agent.tenant
    for each row when (old.settings -> 'approve_from' is distinct from new.settings -> 'approve_from')
    execute function agent_internal.apply_tenant_policy();

create trigger keep_logins after insert or update or delete on agent.principal for each row execute function agent_internal.keep_logins();

create trigger check_login_name before insert or update of tenant, name on agent.principal
    for each row when (new.tenant = 'default' and not new.is_login and new.login is distinct from new.name)
    execute function agent_internal.check_login_name();

create trigger audit_change after insert or update or delete on agent.principal
    for each row execute function agent_internal.audit_change('principal', 'name', 'kind,login,links_of,is_login,active');

create trigger audit_change after insert or update or delete on agent.role_grant
    for each row execute function agent_internal.audit_change('role_grant', 'principal,role', 'expires_at');

create trigger audit_change after insert or update or delete on agent.token
    for each row execute function agent_internal.audit_change('token', 'id', 'principal,scopes,expires_at');

create trigger check_settings before insert or update of settings on agent.tenant
    for each row when (jsonb_typeof(new.settings) = 'object') execute function agent_internal.check_settings();

-- walagent's own triggers act as who executes the statement: see agent_internal.own_triggers().
create trigger enter before insert or update or delete on agent.principal for each statement execute function agent_internal.enter_trigger();
create trigger leave after insert or update or delete on agent.principal for each statement execute function agent_internal.leave_trigger();
create trigger enter before insert or update or delete on agent.tenant for each statement execute function agent_internal.enter_trigger();
create trigger leave after insert or update or delete on agent.tenant for each statement execute function agent_internal.leave_trigger();
create trigger enter before insert or update or delete on agent.role_grant for each statement execute function agent_internal.enter_trigger();
create trigger leave after insert or update or delete on agent.role_grant for each statement execute function agent_internal.leave_trigger();
create trigger enter before insert or update or delete on agent.token for each statement execute function agent_internal.enter_trigger();
create trigger leave after insert or update or delete on agent.token for each statement execute function agent_internal.leave_trigger();
