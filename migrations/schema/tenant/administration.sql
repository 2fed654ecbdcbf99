-- Tenants, principals, roles and tokens: who creates, changes and ends them.
--
-- The operator, which is the owner of the schema and the members of its role, administers all tenants.  An admin of a tenant
-- administers its principals, and gives nobody more than it has: no scope that its own token lacks, and nothing that lasts
-- longer than its own role and token.
--
--   WA020   a tenant, principal, role grant or token does not exist, exists already, or cannot be changed so

-- Whether the caller is the operator: a login that is or can become the owner of the schema, and acts as nobody else.
create or replace function agent_internal.is_operator()
    returns boolean
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select not (agent_internal.identity()).named
       and pg_has_role(session_user, (select n.nspowner from pg_namespace n where n.nspname = 'agent_internal'), 'member')
$$;
comment on function agent_internal.is_operator() is 'Whether the caller administers all tenants';

-- Raise 42501 unless the caller administers a tenant.  Code of others, such as a trigger below a statement of an admin, does not.
create or replace function agent_internal.check_admin(_tenant text)
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _me constant record := agent_internal.identity();
begin
    if agent_internal.in_code() or not agent_internal.is_operator() and not coalesce(_me.named and _me.tenant = _tenant and agent.has_role('admin'), false) then
        raise exception '"%" may not administer tenant "%"', coalesce(_me.principal, ''), coalesce(_tenant, '')
            using errcode = '42501', hint = 'A principal of the tenant needs the role admin, and its token the scope admin.';
    end if;
end;
$$;

-- Raise 42501 unless the caller is the operator.
create or replace function agent_internal.check_operator()
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    if not agent_internal.is_operator() then
        raise exception '"%" may not administer tenants', coalesce(agent.current_principal(), '')
            using errcode = '42501', hint = 'Use a login that owns the schema agent, without a token.';
    end if;
end;
$$;

-- When the right of the caller to administer ends; infinity: never.
create or replace function agent_internal.administers_until()
    returns timestamptz
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select case when agent_internal.is_operator() then 'infinity' else least(coalesce(i.until, 'infinity'), (
               select max(coalesce(g.expires_at, 'infinity')) from agent.role_grant g
                where g.tenant = i.tenant and g.principal = i.principal and g.role = 'admin')) end
      from agent_internal.identity() i
$$;

-- Raise WA020 for an end that has passed or is invalid, and 42501 for one later than that of the caller's own right.
create or replace function agent_internal.check_expiry(_expires_at timestamptz)
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    if _expires_at <= agent_internal.now() or _expires_at = 'infinity' then
        raise exception 'expires_at is %, expected a time in the future, or NULL for none', _expires_at using errcode = 'WA020';
    elsif coalesce(_expires_at, 'infinity') > agent_internal.administers_until() then
        raise exception 'cannot grant beyond %, when the grantor''s own right ends', agent_internal.administers_until()
            using errcode = '42501', hint = 'Use an earlier expires_at.';
    end if;
end;
$$;

-- The principal of a name, locked.
--
-- Raises WA020 if there is none.
create or replace function agent_internal.administered(_tenant text, _name name)
    returns agent.principal
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _found agent.principal;
begin
    perform agent_internal.check_admin(_tenant);
    select * into _found from agent.principal p where p.tenant = _tenant and p.name = _name for update;
    if not found then
        raise exception 'principal "%" does not exist in tenant "%"', _name, _tenant
            using errcode = 'WA020',
                  hint = agent_internal.suggest(_name, array(select p.name::text from agent.principal p where p.tenant = _tenant));
    end if;
    return _found;
end;
$$;

-- Lock the administration of a tenant: two admins who end each other's roles at once would leave it with none.
create or replace function agent_internal.lock_admins(_tenant text)
    returns void
    language sql
    set search_path = pg_catalog, pg_temp
as $$ select from agent.tenant t where t.name = _tenant for no key update $$;

-- Raise WA020 if a tenant has no admin left.  The operator may leave it without one.
create or replace function agent_internal.check_last_admin(_tenant text)
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    if not agent_internal.is_operator() and not exists (
        select from agent.role_grant g join agent.principal p on p.tenant = g.tenant and p.name = g.principal
         where g.tenant = _tenant and g.role = 'admin' and g.expires_at is null and p.active) then
        raise exception 'tenant "%" would have no permanent admin', _tenant
            using errcode = 'WA020', hint = 'Grant another principal the role admin first.';
    end if;
end;
$$;

-- Create a tenant, as the operator.
create or replace function agent.create_tenant(name text, display_name text default '')
    returns uuid
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    _id uuid;
begin
    perform agent_internal.check_operator();
    insert into agent.tenant as t (name, display_name) values (create_tenant.name, create_tenant.display_name)
    on conflict do nothing
    returning t.id into _id;
    if _id is null then
        raise exception 'tenant "%" already exists', create_tenant.name using errcode = 'WA020';
    end if;
    return _id;
exception when check_violation then
    raise exception 'invalid name of a tenant: "%"', create_tenant.name
        using errcode = 'WA020', hint = 'Use 1 to 63 letters, digits and the characters _.@-, beginning with a letter or digit.';
end;
$$;
comment on function agent.create_tenant(text, text) is 'Create a tenant; return its ID';

create or replace function agent_internal.set_tenant_active(_name text, _active boolean)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.check_operator();
    if _name = 'default' and not _active then
        raise exception 'tenant "default" cannot be disabled' using errcode = 'WA020';
    end if;
    update agent.tenant t set active = _active where t.name = _name;
    if not found then
        raise exception 'tenant "%" does not exist', _name
            using errcode = 'WA020', hint = agent_internal.suggest(_name, array(select t.name from agent.tenant t));
    end if;
end;
$$;

create or replace function agent.disable_tenant(name text)
    returns void
    language sql
    security definer
    set search_path = pg_catalog, pg_temp
as $$ select agent_internal.set_tenant_active(disable_tenant.name, false) $$;
comment on function agent.disable_tenant(text) is 'Refuse all principals of a tenant from their next transaction on, and start none of its runs';

create or replace function agent.enable_tenant(name text)
    returns void
    language sql
    security definer
    set search_path = pg_catalog, pg_temp
as $$ select agent_internal.set_tenant_active(enable_tenant.name, true) $$;
comment on function agent.enable_tenant(text) is 'Let the principals of a disabled tenant act again';

-- Create a principal.
--
-- Args: login: a database role whose sessions act as it; only the operator ties one to a principal.
-- Raises WA020 if it exists, or the login does not exist, is another principal's, or sees all tenants.
create or replace function agent.create_principal(
    name name, kind text default 'user', login name default null, display_name text default '', email text default null,
    tenant text default agent.current_tenant()
)
    returns uuid
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    _id         uuid;
    _constraint text;
begin
    perform agent_internal.check_admin(tenant);
    if login is not null then
        if not agent_internal.is_operator() then
            raise exception 'only the operator ties a principal to a login' using errcode = '42501',
                hint = 'Create the principal without login, and give it a token.';
        elsif to_regrole(quote_ident(login)) is null then
            raise exception 'role "%" does not exist', login using errcode = 'WA020', hint = format('Run create role %I login.', login);
        elsif has_table_privilege(login, 'agent.run', 'update') then
            raise exception 'role "%" sees all tenants, so it cannot be a principal', login using errcode = 'WA020',
                hint = 'Use a role that neither owns the schema agent nor has agent.grant_runner.';
        end if;
    end if;
    insert into agent.principal as p (tenant, name, kind, login, display_name, email)
    values (tenant, name, kind, login, display_name, email)
    returning p.id into _id;
    return _id;
exception
    when unique_violation then
        get stacked diagnostics _constraint = constraint_name;
        if _constraint = 'principal_login_key' then
            raise exception 'role "%" is the login of another principal', login using errcode = 'WA020';
        end if;
        raise exception 'principal "%" already exists', name using errcode = 'WA020';
    when foreign_key_violation then
        raise exception 'tenant "%" does not exist', tenant using errcode = 'WA020',
            hint = 'Create it with: walagent tenants add NAME';
    when check_violation or not_null_violation then
        get stacked diagnostics _constraint = constraint_name;
        if _constraint = 'principal_email_check' then
            raise exception 'invalid e-mail address "%" of principal "%"', email, name using errcode = 'WA020',
                hint = 'Write one address as NAME@HOST, without a name before it.';
        end if;
        raise exception 'invalid principal "%" of kind "%"', name, kind using errcode = 'WA020',
            hint = 'Kinds are user, agent and service; a name has no control characters.';
end;
$$;
comment on function agent.create_principal(name, text, name, text, text, text) is 'Create a principal; return its ID';

create or replace function agent_internal.set_principal_active(_name name, _active boolean, _tenant text)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.lock_admins(_tenant);
    perform agent_internal.administered(_tenant, _name);
    update agent.principal p set active = _active where p.tenant = _tenant and p.name = _name;
    perform agent_internal.check_last_admin(_tenant);
end;
$$;

create or replace function agent.disable_principal(name name, tenant text default agent.current_tenant())
    returns void
    language sql
    security definer
    set search_path = pg_catalog, pg_temp
as $$ select agent_internal.set_principal_active(disable_principal.name, false, disable_principal.tenant) $$;
comment on function agent.disable_principal(name, text) is 'Refuse a principal, its login and its tokens from their next transaction on';

create or replace function agent.enable_principal(name name, tenant text default agent.current_tenant())
    returns void
    language sql
    security definer
    set search_path = pg_catalog, pg_temp
as $$ select agent_internal.set_principal_active(enable_principal.name, true, enable_principal.tenant) $$;
comment on function agent.enable_principal(name, text) is 'Let a disabled principal act again';

-- Grant a role, or change when it ends.
create or replace function agent.grant_role(
    principal name, role text, expires_at timestamptz default null, tenant text default agent.current_tenant()
)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
begin
    perform agent_internal.lock_admins(tenant);
    perform agent_internal.administered(tenant, principal);
    perform agent_internal.check_expiry(expires_at);
    if role = 'agent' and exists (select from agent.principal p where (p.tenant, p.name, p.kind) = (tenant, principal, 'user')) then
        raise exception 'principal "%" is a person, and role "agent" is for agents and services', principal using errcode = 'WA020',
            hint = 'Grant a person developer, approver, auditor, viewer or admin.';
    end if;
    insert into agent.role_grant as g (tenant, principal, role, granted_by, expires_at)
    values (tenant, principal, role, agent.current_principal(), expires_at)
    on conflict on constraint role_grant_pkey
    do update set granted_by = excluded.granted_by, granted_at = now(), expires_at = excluded.expires_at;
    if role = 'admin' then
        perform agent_internal.check_last_admin(tenant);
    end if;
exception when check_violation or not_null_violation then
    raise exception 'invalid role "%"', role using errcode = 'WA020',
        hint = 'Roles are admin, developer, approver, auditor, agent and viewer.';
end;
$$;
comment on function agent.grant_role(name, text, timestamp with time zone, text) is 'Grant a principal a role in its tenant, or change when it ends';

create or replace function agent.revoke_role(principal name, role text, tenant text default agent.current_tenant())
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
begin
    perform agent_internal.lock_admins(tenant);
    perform agent_internal.administered(tenant, principal);
    delete from agent.role_grant g where g.tenant = tenant and g.principal = principal and g.role = role;
    if not found then
        raise exception 'principal "%" does not have role "%"', principal, role using errcode = 'WA020';
    end if;
    if role = 'admin' then
        perform agent_internal.check_last_admin(tenant);
    end if;
end;
$$;
comment on function agent.revoke_role(name, text, text) is 'Revoke a role of a principal at once';

create or replace function agent_internal.random_token()
    returns text
    language sql
    volatile
    set search_path = pg_catalog, pg_temp
as $$ select 'wla_' || translate(encode(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()), 'base64'), '+/=', '-_') $$;

-- Create a token, as an admin.  It is returned once: only its digest is stored.
--
-- With a token of a principal that has a login, one changes agents as that login: only who can become it creates one.
--
-- A login can also create one for itself that only reads and expires within 12 hours; who acts by a token cannot, or a
-- token that was stolen would outlive its revocation.
create or replace function agent.create_token(
    principal name, label text default '', scopes text[] default '{}', expires_at timestamptz default null,
    tenant text default agent.current_tenant(), out id uuid, out token text
)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    _own   constant text[] := (agent_internal.identity()).scopes;
    _known constant text[] := '{read,post,approve,develop,admin}';
    _login constant name := agent_internal.login_of(tenant, principal);
    _for_itself constant boolean := nullif(current_setting('walagent.identity', true), '') is null and scopes = '{read}'
        and (tenant, principal) = (agent.current_tenant(), agent.current_principal())
        and expires_at <= agent_internal.now() + interval '12 hours';
begin
    if _for_itself and (agent_internal.participant(principal)).active then
        null;
    elsif not (agent_internal.administered(tenant, principal)).active then
        raise exception 'principal "%" is disabled', principal using errcode = 'WA020',
            hint = 'Enable it with: walagent tenants principals enable NAME';
    end if;
    perform agent_internal.check_expiry(expires_at);
    if _login is not null and not agent_internal.is_operator() and not agent_internal.own_login_may_become(_login) then
        raise exception 'a token of principal "%" acts as login "%", which the caller cannot become', principal, _login
            using errcode = '42501', hint = format('As the operator, run select token from agent.create_token(%L, tenant => %L).', principal, tenant);
    end if;
    if scopes is null or not scopes <@ _known then
        raise exception 'invalid scopes: %', coalesce(scopes::text, 'NULL') using errcode = 'WA020',
            hint = 'Scopes are read, post, approve, develop and admin; none: all that the principal may do.';
    elsif _own <> '{}' and (scopes = '{}' or not scopes <@ _own) then
        raise exception 'the token of the caller lacks a scope of the new one' using errcode = '42501',
            hint = format('It can give: %s.', array_to_string(_own, ', '));
    end if;
    token := agent_internal.random_token();
    insert into agent.token as t (tenant, principal, label, digest, scopes, expires_at)
    values (tenant, principal, label, sha256(convert_to(token, 'utf8')), scopes, expires_at)
    returning t.id into id;
end;
$$;
comment on function agent.create_token(name, text, text[], timestamp with time zone, text) is 'Create a token of a principal, which is shown once';

-- Revoke a token: its own principal can, and an admin.
create or replace function agent.revoke_token(id uuid)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _own   constant text[] := (agent_internal.identity()).scopes;
    _token agent.token;
begin
    select * into _token from agent.token t where t.id = revoke_token.id for update;
    if not found then
        raise exception 'token % does not exist', revoke_token.id using errcode = 'WA020';
    end if;
    if (_token.tenant, _token.principal) is distinct from (agent.current_tenant(), agent.current_principal()) then
        perform agent_internal.check_admin(_token.tenant);
    elsif _own <> '{}' and (_token.scopes = '{}' or not _token.scopes <@ _own) then
        raise exception 'the token of the caller lacks a scope of token %', _token.id using errcode = '42501';
    end if;
    update agent.token t set revoked_at = agent_internal.now()
     where t.tenant = _token.tenant and t.id = _token.id and t.revoked_at is null;
end;
$$;
comment on function agent.revoke_token(uuid) is 'Revoke a token from its next transaction on';

-- What a token is not for is refused wherever it is done.
create or replace function agent_internal.require_scope()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if not (agent.has_scope('post') or agent.has_scope('approve')) then
        raise exception 'the token of the caller has neither scope post nor approve' using errcode = '42501';
    end if;
    return null;
end;
$$;

-- A principal changes definitions only as a developer, whatever its login may do.  Functions with the rights of the owner
-- check the caller themselves.
create or replace function agent_internal.require_developer()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if not agent.has_role('developer') and not has_schema_privilege(current_user, 'agent_internal', 'create')
       and current_user <> 'walagent_definer' then
        raise exception 'principal "%" may not change definitions', coalesce(agent.current_principal(), '')
            using errcode = '42501', hint = 'It needs the role developer, and its token the scope develop.';
    end if;
    return null;
end;
$$;

create or replace function agent_internal.tenant_setting(_name text, _tenant text)
    returns jsonb
    language sql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$ select t.settings -> _name from agent.tenant t where t.name = _tenant $$;

create or replace function agent_internal.check_settings()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.check_keys(format('tenant "%s": settings', new.name), new.settings, '{approve_from,four_eyes}');
    return new;
end;
$$;
