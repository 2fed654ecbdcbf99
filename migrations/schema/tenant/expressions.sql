-- Who acts in this session.
--
-- Args: _nobody: code of others is executed here, as who asks has seen in their own callers and rights.
-- Returns as agent_internal.identity() does.
create or replace function agent_internal.identity_of_session(
    _nobody boolean, out tenant text, out principal name, out named boolean, out scopes text[], out until timestamptz
)
    language plpgsql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _identity constant text := nullif(current_setting('walagent.identity', true), '');
    _who      constant text := substr(_identity, 65);
    _login    agent_internal.login;
begin
    scopes := '{}';
    if _nobody is not false then
        named := true;
        return;
    end if;
    if _identity is not null then
        named := true;
        if left(_identity, 64) = agent_internal.mac(format('identity %s %s', agent_internal.transaction_name(), _who)) then
            tenant := _who::jsonb ->> 0;
            principal := _who::jsonb ->> 1;
            scopes := array(select jsonb_array_elements_text(_who::jsonb -> 2));
            until := _who::jsonb ->> 3;
        end if;
        return;
    end if;
    select * into _login from agent_internal.login l where l.login = session_user order by l.taken_by = 'login' desc limit 1;
    named := coalesce(_login.taken_by = 'login', false);
    if _login is null then
        if not agent_internal.is_for_tools() then
            tenant := 'default';
            principal := session_user;
        end if;
    elsif named and _login.active and _login.role = to_regrole(quote_ident(session_user)) then
        tenant := _login.tenant;
        principal := _login.principal;
    end if;
end;
$$;

-- Who acts.  What acts by a token or a run may call code of others; a login does not act there: its session can be that of a
-- person who asks or tries.
--
-- Returns: tenant, principal: NULL: nobody, who sees no rows.  named: whether it is a principal, whose roles count.
--          scopes: of its token; empty: all.  until: when its token expires, or
--          that which opened its session; NULL: never.
create or replace function agent_internal.identity(
    out tenant text, out principal name, out named boolean, out scopes text[], out until timestamptz
)
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    select i.* into tenant, principal, named, scopes, until
      from agent_internal.identity_of_session(
               agent_internal.in_foreign_code(_called => coalesce(current_setting('walagent.identity', true), '') = '')) i;
end;
$$;
comment on function agent_internal.identity() is 'Tenant and principal of the caller';

create or replace function agent.current_tenant()
    returns text
    language sql
    stable
    return (agent_internal.identity()).tenant;
comment on function agent.current_tenant() is 'The tenant of the caller; NULL: none, it sees no rows';

create or replace function agent.current_principal()
    returns name
    language sql
    stable
    return (agent_internal.identity()).principal;
comment on function agent.current_principal() is 'The principal of the caller; a login of no principal acts under its own name; NULL: nobody';

-- Whether the caller sees all tenants: the owner and the runner, while they do not act as somebody, and not in a function
-- of another role.  The login of a principal never does, whatever it is granted.
--
-- Policies are evaluated with the search_path of the caller, so what they call is bound when it is created.
create or replace function agent_internal.all_tenants()
    returns boolean
    language sql
    stable
    return coalesce(current_setting('walagent.identity', true), '') = ''
           and has_table_privilege(session_user, 'agent.run', 'update')
           and has_table_privilege(current_user, 'agent.run', 'update')
           and not (agent_internal.identity()).named;
comment on function agent_internal.all_tenants() is 'Whether the caller sees the rows of all tenants';
