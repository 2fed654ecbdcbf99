-- Tenants, principals and their roles, and who the caller is.
--
-- A tenant is an organisation.  A principal is a person, an agent or a service in it.  Who acts follows from the session:
--
--   a token        agent.act_as(token), until the end of the transaction
--   a login        of a principal that has it; a login of no principal acts in the tenant `default` under its own name
--   a tool         the agent whose run it belongs to: its worker signs it with the request
--
-- Who has one tenant needs to know none of this: all rows are of `default`, and what a login may do follows from its
-- privileges alone.  A principal may do what its login's privileges and its roles both allow.
--
-- Each table with a column `tenant` has row-level security, enabled and forced: agent_internal.isolate().  Functions with
-- the owner's rights are subject to it, too, because who acts follows from the session, not from the current role.
-- The owner and the runner see all tenants, unless they act as somebody.

create table agent.tenant (
    name         text collate "C" primary key check (name ~ '^[A-Za-z0-9][A-Za-z0-9_.@-]{0,62}$'),
    id           uuid not null unique default gen_random_uuid(),
    display_name text not null default '',
    active       boolean not null default true,
    settings     jsonb not null default '{}' check (jsonb_typeof(settings) = 'object'),
    max_running  integer check (max_running >= 0),
    max_queued   integer check (max_queued >= 0),
    created_at   timestamptz not null default now()
);
comment on table agent.tenant is 'Tenants: organisations whose agents, rows and people are kept apart';
comment on column agent.tenant.name is 'Key of the tenant; of a change, the text in the column that names its tenant';
comment on column agent.tenant.id is 'The tenant for programs that want a UUID';
comment on column agent.tenant.display_name is 'Name for people';
comment on column agent.tenant.active is 'Whether its principals can act; if not, they see nothing';
comment on column agent.tenant.settings is 'Settings of the tenant';
comment on column agent.tenant.max_running is 'Maximum number of its runs that are executed at once; NULL: no limit';
comment on column agent.tenant.max_queued is 'Number of runs that wait for a worker from which people are refused questions, posts and workflows; NULL: no limit. Changes are never refused';
comment on column agent.tenant.created_at is 'Time of creation';
insert into agent.tenant (name, display_name) values ('default', 'Default');

create table agent.principal (
    tenant       text collate "C" not null references agent.tenant,
    name         name not null check (name::text ~ '^[^[:cntrl:]]+$'),
    id           uuid not null unique default gen_random_uuid(),
    kind         text not null default 'user' check (kind in ('user', 'agent', 'service')),
    login        name unique,
    display_name text not null default '',
    email        text check (email ~ '^[^@\s<>,;"]+@[^@\s<>,;"]+$' and length(email) <= 320),
    active       boolean not null default true,
    metadata     jsonb not null default '{}' check (jsonb_typeof(metadata) = 'object'),
    created_at   timestamptz not null default now(),
    primary key (tenant, name),
    unique (tenant, id)
);
comment on table agent.principal is 'Principals: people, agents and services of a tenant';
comment on column agent.principal.tenant is 'Tenant that it belongs to';
comment on column agent.principal.name is 'Name, unique in its tenant';
comment on column agent.principal.id is 'The principal for programs that want a UUID';
comment on column agent.principal.kind is 'user, agent or service';
comment on column agent.principal.login is 'Database role whose sessions act as it; NULL: only by a token';
comment on column agent.principal.display_name is 'Name for people';
comment on column agent.principal.email is 'Address for notifications';
comment on column agent.principal.active is 'Whether it can act';
comment on column agent.principal.metadata is 'What an application keeps about it';
comment on column agent.principal.created_at is 'Time of creation';

create table agent.role_grant (
    tenant     text collate "C" not null,
    principal  name not null,
    role       text not null check (role in ('admin', 'developer', 'approver', 'auditor', 'agent', 'viewer')),
    granted_by name not null,
    granted_at timestamptz not null default now(),
    expires_at timestamptz,
    primary key (tenant, principal, role),
    foreign key (tenant, principal) references agent.principal on delete cascade
);
comment on table agent.role_grant is 'Roles of principals in their tenant';
comment on column agent.role_grant.tenant is 'Tenant of the principal';
comment on column agent.role_grant.principal is 'Principal that has the role';
comment on column agent.role_grant.role is 'admin (all), developer (agents and attachments), approver, auditor, agent, viewer';
comment on column agent.role_grant.granted_by is 'Principal that granted it';
comment on column agent.role_grant.granted_at is 'Time of the grant';
comment on column agent.role_grant.expires_at is 'When it ends; NULL: never';

-- Logins of principals, without row-level security: the policies themselves read it.
create table agent_internal.login (
    login     name primary key,
    tenant    text collate "C" not null,
    principal name not null,
    active    boolean not null
);
comment on table agent_internal.login is 'The principal of each login that has one, kept by triggers';

create function agent_internal.keep_logins()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    if tg_table_name = 'tenant' then
        update agent_internal.login l set active = p.active and new.active
          from agent.principal p where p.login = l.login and p.tenant = new.name;
        return null;
    end if;
    if tg_op <> 'INSERT' then
        delete from agent_internal.login where login = old.login;
    end if;
    if tg_op <> 'DELETE' and new.login is not null then
        insert into agent_internal.login (login, tenant, principal, active)
        values (new.login, new.tenant, new.name, new.active and (select t.active from agent.tenant t where t.name = new.tenant));
    end if;
    return null;
end;
$$;
create trigger keep_logins after update of active on agent.tenant for each row execute function agent_internal.keep_logins();
create trigger keep_logins after insert or update or delete on agent.principal for each row execute function agent_internal.keep_logins();

-- A message authentication code: SHA-256 of the key and of a digest of the key and the message, in hexadecimal.
create function agent_internal.mac(_message text)
    returns text
    language sql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
    select encode(sha256(s.key || sha256(s.key || convert_to(_message, 'utf8'))), 'hex') from agent_internal.secret s
$$;
comment on function agent_internal.mac(text) is 'Message authentication code of a text, with the key of this database';

-- Act as a principal until the end of the transaction, or of the savepoint.
--
-- The setting that holds the identity is signed together with the session and the start of the transaction: one that was
-- written by hand, or copied from another transaction, is nobody.
--
-- Args: _scopes: empty: all.  _until: when its right to act ends; NULL: never.
create function agent_internal.assume(_tenant text, _principal name, _scopes text[] default '{}', _until timestamptz default null)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _who constant text := jsonb_build_array(_tenant, _principal, to_jsonb(_scopes), _until)::text;
begin
    perform set_config('walagent.identity',
                       agent_internal.mac(format('identity %s %s %s', pg_backend_pid(), transaction_timestamp(), _who)) || _who, true);
end;
$$;
comment on function agent_internal.assume(text, name, text[], timestamptz) is 'Act as a principal until the end of the transaction';

-- Who acts.
--
-- Returns: tenant, principal: NULL: nobody, who sees no rows.  named: whether it is a principal, whose roles count.
--          scopes: of its token; empty: all.  until: when its token expires; NULL: never.
create function agent_internal.identity(
    out tenant text, out principal name, out named boolean, out scopes text[], out until timestamptz
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
    if _identity is not null then
        named := true;
        if left(_identity, 64) = agent_internal.mac(format('identity %s %s %s', pg_backend_pid(), transaction_timestamp(), _who)) then
            tenant := _who::jsonb ->> 0;
            principal := _who::jsonb ->> 1;
            scopes := array(select jsonb_array_elements_text(_who::jsonb -> 2));
            until := _who::jsonb ->> 3;
        end if;
        return;
    end if;
    select * into _login from agent_internal.login l where l.login = session_user;
    named := found;
    if not found then
        if session_user <> agent_internal.tools_login() then
            tenant := 'default';
            principal := session_user;
        end if;
    elsif _login.active then
        tenant := _login.tenant;
        principal := _login.principal;
    end if;
end;
$$;
comment on function agent_internal.identity() is 'Tenant and principal of the caller';

create function agent.current_tenant()
    returns text
    language sql
    stable
    return (agent_internal.identity()).tenant;
comment on function agent.current_tenant() is 'The tenant of the caller; NULL: none, it sees no rows';

-- Supersedes the definition that returned the login.
create or replace function agent.current_principal()
    returns name
    language sql
    stable
    return (agent_internal.identity()).principal;
comment on function agent.current_principal() is 'The principal of the caller; a login of no principal acts under its own name';

-- Whether the caller sees all tenants: the owner and the runner, while they do not act as somebody, and not in a function
-- of another role.  The login of a principal never does, whatever it is granted.
--
-- Policies are evaluated with the search_path of the caller, so what they call is bound when it is created.
create function agent_internal.all_tenants()
    returns boolean
    language sql
    stable
    return coalesce(current_setting('walagent.identity', true), '') = ''
           and has_table_privilege(session_user, 'agent.run'::regclass, 'update')
           and has_table_privilege(current_user, 'agent.run'::regclass, 'update')
           and not (agent_internal.identity()).named;
comment on function agent_internal.all_tenants() is 'Whether the caller sees the rows of all tenants';

-- Separate the tenants in a table with a column `tenant`.
--
-- Args: _shared: rows without a tenant are visible to all; only the owner writes them.
create function agent_internal.isolate(_table regclass, _shared boolean default false)
    returns void
    language plpgsql
as $$
declare
    _own constant text := '(select agent_internal.all_tenants()) or tenant = (select agent.current_tenant())';
begin
    execute format('alter table %s enable row level security, force row level security', _table);
    execute format('create policy tenant on %s using (%s)', _table, _own);
    execute format('create policy reading on %s as restrictive for select using ((select agent_internal.may_read()))', _table);
    if _shared then
        execute format('create policy shared on %s for select using (tenant is null)', _table);
    end if;
end;
$$;
comment on function agent_internal.isolate(regclass, boolean) is 'Separate the tenants in a table; used by migrations';

-- Whether the caller may do what a scope names: its token has it, or has no scopes, or it uses no token.
create function agent.has_scope(scope text)
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
create function agent_internal.has_owner_rights()
    returns boolean
    language sql
    stable
    return current_user = 'walagent_definer' or pg_catalog.has_schema_privilege(current_user, 'agent_internal', 'create');
comment on function agent_internal.has_owner_rights() is 'Whether this is executed with the rights of the owner of the schema';

-- Whether the caller may read rows: its token has the scope, or it uses none.  Functions with the rights of the owner read
-- what they need.
create function agent_internal.may_read()
    returns boolean
    language sql
    stable
    return coalesce(current_setting('walagent.identity', true), '') = '' or agent.has_scope('read')
           or agent_internal.has_owner_rights();
comment on function agent_internal.may_read() is 'Whether the caller has the scope read, or needs none';

-- Whether the caller has a role in its tenant, and its token the scope for it.  A login of no principal has all: its
-- privileges alone decide.
create function agent.has_role(role text)
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
create function agent_internal.check_role(_role text)
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    if not agent.has_role(_role) then
        raise exception 'principal "%" may not do this', coalesce(agent.current_principal(), '')
            using errcode = '42501', hint = format('It needs the role %s, and its token the scope for it.', _role);
    end if;
end;
$$;

-- Tokens of principals.  Only a digest is stored: a token has 256 random bits, so a plain digest cannot be reversed.
create table agent.token (
    tenant     text collate "C" not null,
    id         uuid not null default gen_random_uuid(),
    principal  name not null,
    label      text not null default '',
    digest     bytea not null unique check (octet_length(digest) = 32),
    scopes     text[] not null default '{}' check (scopes <@ '{read,post,approve,develop,admin}'),
    created_at timestamptz not null default now(),
    expires_at timestamptz,
    revoked_at timestamptz,
    primary key (tenant, id),
    foreign key (tenant, principal) references agent.principal on delete cascade
);
comment on table agent.token is 'Tokens of principals, as digests';
comment on column agent.token.tenant is 'Tenant of the principal';
comment on column agent.token.id is 'ID of the token, to revoke it';
comment on column agent.token.principal is 'Principal that it stands in for';
comment on column agent.token.label is 'What it is for';
comment on column agent.token.digest is 'SHA-256 of the token';
comment on column agent.token.scopes is 'What it can be used for: read, post, approve, develop, admin; empty: all that its principal may do';
comment on column agent.token.created_at is 'Time of creation';
comment on column agent.token.expires_at is 'When it expires; NULL: never';
comment on column agent.token.revoked_at is 'When it was revoked';

-- Act as the principal of a token until the end of the transaction.
--
-- Raises WA018 if the token is not valid.
create function agent.act_as(token text)
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
            hint = 'Create one with: walagent token create PRINCIPAL';
    end if;
    perform agent_internal.assume(_found.tenant, _found.principal, _found.scopes, _found.until);
end;
$$;
comment on function agent.act_as(text) is 'Act as the principal of a token until the end of the transaction';

-- The valid token with a digest.  Policies hide agent.token from who has no identity yet, so the lookup is a policy of
-- its own, for one digest, which this function names in a setting for the time of the query.
create function agent_internal.find_token(
    _digest bytea, out tenant text, out principal name, out scopes text[], out until timestamptz
)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform set_config('walagent.token_digest', encode(_digest, 'hex'), true);
    select t.tenant, t.principal, t.scopes, t.expires_at into tenant, principal, scopes, until
      from agent.token t
           join agent.principal p on p.tenant = t.tenant and p.name = t.principal and p.active
           join agent.tenant n on n.name = t.tenant and n.active
     where t.digest = _digest and t.revoked_at is null
       and (t.expires_at is null or t.expires_at > agent_internal.now());
    perform set_config('walagent.token_digest', '', true);
end;
$$;
create function agent_internal.sought_token()
    returns bytea
    language sql
    stable
    return decode(nullif(current_setting('walagent.token_digest', true), ''), 'hex');

select agent_internal.isolate(t) from unnest('{agent.principal, agent.role_grant, agent.token}'::regclass[]) t;
alter table agent.tenant enable row level security, force row level security;
create policy tenant on agent.tenant
    using ((select agent_internal.all_tenants()) or name = (select agent.current_tenant()));
create policy reading on agent.tenant as restrictive for select using ((select agent_internal.may_read()));
-- A digest finds its token; nothing else follows from knowing it.
create policy sought on agent.token for select using (digest = (select agent_internal.sought_token()));
create policy sought on agent.principal for select using (exists (
    select from agent.token t where t.digest = (select agent_internal.sought_token()) and t.tenant = principal.tenant and t.principal = principal.name));
create policy sought on agent.tenant for select using (exists (
    select from agent.token t where t.digest = (select agent_internal.sought_token()) and t.tenant = tenant.name));

revoke all on agent.tenant, agent.principal, agent.role_grant, agent.token, agent_internal.login from public;
revoke all on function agent_internal.keep_logins(), agent_internal.mac(text), agent_internal.assume(text, name, text[], timestamptz),
    agent_internal.identity(), agent.current_tenant(), agent_internal.all_tenants(), agent_internal.isolate(regclass, boolean),
    agent.has_role(text), agent.has_scope(text), agent_internal.find_token(bytea), agent_internal.sought_token(), agent.act_as(text), agent_internal.may_read(),
    agent_internal.check_role(text), agent_internal.has_owner_rights() from public;
