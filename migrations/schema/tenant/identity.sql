create or replace function agent_internal.keep_logins()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _role oid;  -- another one that gets the name later is not the principal's
begin
    if tg_table_name = 'tenant' then
        update agent_internal.login l set active = p.active and new.active
          from agent.principal p where p.login = l.login and p.tenant = new.name and l.taken_by = 'login';
        return null;
    end if;
    if tg_op = 'UPDATE' and new.login = old.login then
        select l.role into _role from agent_internal.login l where (l.login, l.taken_by) = (old.login, 'login');
    elsif tg_op <> 'DELETE' then
        _role := to_regrole(quote_ident(new.login));
    end if;
    if tg_op <> 'INSERT' then
        delete from agent_internal.login l
         where (l.login, l.taken_by) = (old.login, 'login') or old.tenant = 'default' and (l.login, l.taken_by) = (old.name, 'principal');
    end if;
    if tg_op <> 'DELETE' and new.login is not null then
        insert into agent_internal.login (login, taken_by, tenant, principal, active, role)
        values (new.login, 'login', new.tenant, new.name,
                new.active and (select t.active from agent.tenant t where t.name = new.tenant), _role);
    end if;
    if tg_op <> 'DELETE' and new.tenant = 'default' and not new.is_login then
        insert into agent_internal.login (login, taken_by, tenant, principal, active) values (new.name, 'principal', 'default', new.name, false);
    end if;
    return null;
end;
$$;

-- The same of the names of agents, as which their tools act.
create or replace function agent_internal.keep_agent_names()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    if tg_op <> 'INSERT' and old.tenant = 'default' then
        delete from agent_internal.login l where (l.login, l.taken_by) = (old.name::name, 'agent');
    end if;
    if tg_op <> 'DELETE' and new.tenant = 'default' then
        insert into agent_internal.login (login, taken_by, tenant, principal, active)
        values (new.name::name, 'agent', 'default', new.name::name, false) on conflict do nothing;
    end if;
    return null;
end;
$$;

-- Why nothing of a tenant is called so: a login of this name acts under it; NULL: none does.
create or replace function agent_internal.login_refusal(_tenant text, _name name)
    returns text
    language sql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
    select format('role "%s" can log in, and acts under its own name in tenant "%s"', _name, _tenant)
     where _tenant = 'default' and exists (select from pg_roles r where r.rolname = _name and r.rolcanlogin)
       and not exists (select from agent_internal.login l where (l.login, l.taken_by) = (_name, 'login'))
$$;
comment on function agent_internal.login_refusal(text, name) is 'Why no principal or agent of a tenant has a name, if that is a login''s';

create or replace function agent_internal.check_login_name()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _refusal constant text := agent_internal.login_refusal(new.tenant, new.name);
begin
    if _refusal is not null then
        raise exception '%', _refusal using errcode = 'WA020',
            hint = format('Use another name, or tie them as the operator: select agent.create_principal(%L, login => %1$L)', new.name);
    end if;
    return new;
end;
$$;

-- Act as an agent, or as walagent itself for calls that no agent makes, until the end of the transaction.  No principal has that name.
create or replace function agent_internal.assume_agent(_tenant text, _agent text)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
as $$
begin
    perform agent_internal.assume(_tenant, coalesce(_agent, '(walagent)'));
end;
$$;
comment on function agent_internal.assume_agent(text, text) is 'Act as an agent, or as walagent itself, until the end of the transaction';

-- A message authentication code: SHA-256 of the key and of a digest of the key and the message, in hexadecimal.
create or replace function agent_internal.mac(_message text)
    returns text
    language plpgsql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
as $$
begin
    return (select encode(sha256(s.key || sha256(s.key || convert_to(_message, 'utf8'))), 'hex') from agent_internal.secret s);
end;
$$;
comment on function agent_internal.mac(text) is 'Message authentication code of a text, with the key of this database';

-- Act as a principal until the end of the transaction, or of the savepoint.
--
-- The setting that holds the identity is signed together with the session and the start of the transaction: one that was
-- written by hand, or copied from another transaction, is nobody.
--
-- Args: _scopes: empty: all.  _until: when what it gives ends at the latest; NULL: with its role.
create or replace function agent_internal.assume(_tenant text, _principal name, _scopes text[] default '{}', _until timestamptz default null)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _who constant text := jsonb_build_array(_tenant, _principal, to_jsonb(_scopes), _until)::text;
begin
    perform set_config('walagent.identity',
                       agent_internal.mac(format('identity %s %s', agent_internal.transaction_name(), _who)) || _who, true);
end;
$$;
comment on function agent_internal.assume(text, name, text[], timestamp with time zone) is 'Act as a principal until the end of the transaction';

-- Whether the caller may do what a scope names: its token has it, or has no scopes, or it uses no token.
create or replace function agent.has_scope(scope text)
    returns boolean
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _scopes constant text[] := (agent_internal.identity()).scopes;
begin
    return _scopes = '{}' or has_scope.scope = any (_scopes);
end;
$$;
comment on function agent.has_scope(text) is 'Whether the token of the caller can be used for this; without a token, yes';

-- Whether this is executed with the rights of the schema's owner: by a function that has them.
create or replace function agent_internal.has_owner_rights()
    returns boolean
    language sql
    stable
    return current_user = 'walagent_definer' or pg_catalog.has_schema_privilege(current_user, 'agent_internal', 'create');
comment on function agent_internal.has_owner_rights() is 'Whether this is executed with the rights of the owner of the schema';

-- Whether the caller may read rows: its token has the scope, or it uses none.  Functions with the rights of the owner read
-- what they need.
create or replace function agent_internal.may_read()
    returns boolean
    language sql
    stable
    return coalesce(current_setting('walagent.identity', true), '') = '' or agent.has_scope('read')
           or agent_internal.has_owner_rights();
comment on function agent_internal.may_read() is 'Whether the caller has the scope read, or needs none';

-- Whether the caller has a role in its tenant, and its token the scope for it.  A login of no principal has all: its
-- privileges alone decide.
create or replace function agent.has_role(role text)
    returns boolean
    language plpgsql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _me constant record := agent_internal.identity();
begin
    if not _me.named then
        return _me.principal is not null;  -- the login for tools, without a run, is nobody
    end if;
    return agent.has_scope(case has_role.role
        when 'admin' then 'admin'
        when 'developer' then 'develop'
        when 'approver' then 'approve'
        when 'agent' then 'post'
        else 'read' end) and exists (
        select from agent.role_grant g
         where g.tenant = _me.tenant and g.principal = _me.principal and g.role in (has_role.role, 'admin')
           and (g.expires_at is null or g.expires_at > agent_internal.now()));
end;
$$;
comment on function agent.has_role(text) is 'Whether the caller has a role in its tenant; an admin has all of them';

-- Raise 42501 unless the caller has a role.
create or replace function agent_internal.check_role(_role text)
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    if not agent.has_role(_role) then
        raise exception 'principal "%" may not do this', coalesce(agent.current_principal(), '')
            using errcode = '42501', hint = case
                when exists (select from agent_internal.login l where l.login = session_user) and agent.current_principal() is null
                then format('Tenant "default" has something else of its name. As the operator, run update agent.principal set login = name where (tenant, name) = (''default'', %L)', session_user)
                else format('It needs the role %s, and its token the scope for it.', _role) end;
    end if;
end;
$$;

-- Act as the principal of a token until the end of the transaction.
--
-- Raises WA018 if the token is not valid.
create or replace function agent.act_as(token text)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _found record;
begin
    -- The identity is not known yet, and the policies of these tables ask for it.
    select * into _found from agent_internal.find_token(sha256(convert_to(act_as.token, 'utf8')));
    if _found.principal is null then
        raise exception 'the token is unknown, expired or revoked' using errcode = 'WA018',
            hint = 'Create one with: walagent tenants tokens create PRINCIPAL';
    end if;
    perform agent_internal.assume(_found.tenant, _found.principal, _found.scopes, _found.until);
end;
$$;
comment on function agent.act_as(text) is 'Act as the principal of a token until the end of the transaction';

-- The valid token with a digest.  Policies hide agent.token from who has no identity yet, so the lookup is a policy of
-- its own, for one digest, which this function names in a setting for the time of the query.
create or replace function agent_internal.find_token(
    _digest bytea, out tenant text, out principal name, out scopes text[], out until timestamptz
)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform set_config('walagent.token_digest', encode(_digest, 'hex'), true);
    select t.tenant, t.principal, t.scopes, case t.purpose when 'session' then t.gives_until else t.expires_at end into tenant, principal, scopes, until
      from agent.token t
           join agent.principal p on p.tenant = t.tenant and p.name = t.principal and p.active
           join agent.tenant n on n.name = t.tenant and n.active
     where t.digest = _digest and t.revoked_at is null
       and (t.expires_at is null or t.expires_at > agent_internal.now());
    perform set_config('walagent.token_digest', '', true);
end;
$$;

create or replace function agent_internal.sought_token()
    returns bytea
    language sql
    stable
    return decode(nullif(current_setting('walagent.token_digest', true), ''), 'hex');

-- Act as a principal whose signed token the daemon has verified, until the end of the transaction.
--
-- Callable by the runner alone, and only while it acts as nobody.  Raises WA018 if the principal does not exist in the
-- tenant, or either is disabled.
create or replace function agent_internal.act_as_principal(_tenant text, _principal text, _scopes text[], _until timestamptz)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _found name;
begin
    if not agent_internal.all_tenants() then
        raise exception '"%" may not act as a principal without its token', coalesce(agent.current_principal(), session_user)
            using errcode = '42501';
    end if;
    -- A text: a name would be cut to the name of another one.
    select p.name into _found
      from agent.principal p join agent.tenant t on t.name = p.tenant and t.active
     where p.tenant = _tenant and p.name::text = _principal and p.active;
    if _found is null or _until is null or _until <= agent_internal.now() then
        raise exception 'the token is expired, or names no active principal' using errcode = 'WA018',
            hint = 'Create the principal with: walagent tenants principals add NAME --tenant TENANT';
    end if;
    perform agent_internal.assume(_tenant, _found, _scopes, _until);
end;
$$;
comment on function agent_internal.act_as_principal(text, text, text[], timestamp with time zone) is 'Act as the principal of a signed token, which the daemon has verified';

-- The login whose privileges bound what the tokens of a principal do; NULL: none.  A name gives no login: who names
-- principals would choose one.
create or replace function agent_internal.login_of(_tenant text, _principal name)
    returns name
    language sql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
    select coalesce(p.login, p.links_of) from agent.principal p where p.tenant = _tenant and p.name = _principal
$$;
comment on function agent_internal.login_of(text, name) is 'The login whose privileges bound what the tokens of a principal do';

-- The same of the caller.  A login of no principal acts under its own name, in its own session.
create or replace function agent_internal.own_login()
    returns name
    language plpgsql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _me constant record := agent_internal.identity();
begin
    return case when _me.named then agent_internal.login_of(_me.tenant, _me.principal) else _me.principal end;
end;
$$;
comment on function agent_internal.own_login() is 'The login whose privileges bound what the caller does';

-- Whether the caller's login can become a role.
create or replace function agent_internal.own_login_may_become(_role name)
    returns boolean
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select coalesce((select agent_internal.may_become(r.oid, _role) from pg_roles r where r.rolname = agent_internal.own_login()), false)
$$;

-- How the caller can ask questions over this session's login: which login it has, and whether that login can become a role.
--
-- Args: _role: the role that statements of questions run as.
-- Returns is_own: the caller is the principal of this session's login.  bypasses: row-level security does not apply to it.
-- reads_login: a policy or view depends on session_user, which is not the caller's login.
create or replace function agent_internal.asking(_role name, out login name, out is_own boolean, out may boolean, out bypasses boolean, out reads_login boolean)
    language plpgsql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
    set standard_conforming_strings = on
as $$
begin
    login := agent_internal.own_login();
    is_own := coalesce(login = session_user, false);
    may := agent_internal.own_login_may_become(_role);
    bypasses := (select r.rolsuper or r.rolbypassrls from pg_roles r where r.rolname = session_user);
    -- walagent's own policies ask for the principal first.
    reads_login := exists (
        select from pg_class c
         where c.relnamespace not in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace,
                                      'agent'::regnamespace, 'agent_internal'::regnamespace)
           and (c.relkind = 'v' and pg_get_viewdef(c.oid) ~* '\msession_user\M'
                or exists (select from pg_policy p where p.polrelid = c.oid and pg_get_expr(p.polqual, p.polrelid) ~* '\msession_user\M')));
end;
$$;
comment on function agent_internal.asking(name) is 'How the caller can ask questions over the login of this session';
