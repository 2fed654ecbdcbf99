-- Sessions of the console: tokens for twelve hours, which the daemon makes for people who prove who they are.

-- Open a session of the principal as which this transaction acts, with the scopes of its token, until that ends.
--
-- Args: _token: by which it acts: not the code of a link, which is exchanged.
-- Returns the token of the session.  Raises 42501 if nobody acts, WA018 if the token is a code.
create or replace function agent_internal.open_session(_token text)
    returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _me constant record := agent_internal.identity();
begin
    if nullif(current_setting('walagent.identity', true), '') is null then
        raise exception 'a session is opened for the principal of a token' using errcode = '42501';
    elsif exists (select from agent.token t where t.digest = sha256(convert_to(_token, 'utf8')) and t.purpose = 'link') then
        raise exception 'this is a code of a link, not a token' using errcode = 'WA018';
    end if;
    return agent_internal.insert_session(_me.tenant, _me.principal, _me.scopes, _me.until, least(_me.until, (
        select t.expires_at from agent.token t where t.digest = sha256(convert_to(_token, 'utf8')))));
end;
$$;
comment on function agent_internal.open_session(text) is 'Open a session of the console for the principal of this transaction';

-- Make a link: a code for the principal of this login, which is an admin.  A login of the operator that is no principal gets
-- one of its name, and what is done by its links is bounded by the privileges of this login.
--
-- Returns granted: the principal that is an admin from now on; NULL: nothing was changed.
-- Raises 42501 unless the login administers its tenant, and for who acts by a token.
create or replace function agent_internal.make_link(_valid interval, out code text, out granted text)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _me    record := agent_internal.identity();
    _found agent.principal;
    _id    uuid;
begin
    perform agent_internal.check_admin(_me.tenant);
    if nullif(current_setting('walagent.identity', true), '') is not null then
        raise exception 'a link is made by a login, not by a token' using errcode = '42501',
            hint = 'Create a token: walagent tenants tokens create PRINCIPAL';
    elsif not _me.named then
        _me.tenant := 'default';
        _me.principal := session_user;  -- it is nobody yet, if something there has its name
        insert into agent.principal (tenant, name, is_login) values (_me.tenant, _me.principal, true) on conflict do nothing;
        select * into _found from agent.principal p where p.tenant = _me.tenant and p.name = _me.principal for update;
        if _found.login is not null then
            raise exception 'principal "%" is that of login "%"', _found.name, _found.login using errcode = 'WA020',
                hint = format('Rename it: update agent.principal set name = ... where (tenant, name) = (%L, %L);', _found.tenant, _found.name);
        elsif _found.links_of is null then
            -- Each of its tokens would get the privileges of this login.
            update agent.token t set revoked_at = agent_internal.now()
             where t.tenant = _found.tenant and t.principal = _found.name and t.revoked_at is null;
            update agent.principal p set links_of = session_user, is_login = true where p.tenant = _found.tenant and p.name = _found.name;
        end if;
        if not exists (select from agent.role_grant g where (g.tenant, g.principal, g.role) = (_me.tenant, _me.principal, 'admin')) then
            perform agent.grant_role(_me.principal, 'admin', tenant => _me.tenant);
            granted := format('%s/%s', _me.tenant, _me.principal);
        end if;
    end if;
    -- Only here is one made that gives all that its principal may do: a label is free.
    select t.id, t.token into _id, code
      from agent.create_token(_me.principal, 'console link', '{read}', agent_internal.now() + _valid, _me.tenant) t;
    update agent.token t set purpose = 'link' where t.tenant = _me.tenant and t.id = _id;
end;
$$;
comment on function agent_internal.make_link(interval) is 'Make a link to the console for the principal of this login';

-- Exchange the code of a link, which is a token for five minutes that can only read, for a session of its principal: once.
-- A login made it, without a token, so the session has all scopes.
--
-- Returns the token of the session.  Raises WA018 if the code is unknown, expired or was used.
create or replace function agent_internal.exchange_code(_code text)
    returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _me record;
begin
    perform agent.act_as(_code);
    -- Of two that have the same code, the second waits, and finds it revoked.
    update agent.token t set revoked_at = agent_internal.now()
     where t.digest = sha256(convert_to(_code, 'utf8')) and t.purpose = 'link' and t.revoked_at is null;
    if not found then
        raise exception 'the code is unknown, expired or was used' using errcode = 'WA018';
    end if;
    _me := agent_internal.identity();
    return agent_internal.insert_session(_me.tenant, _me.principal, '{}', null, null);
end;
$$;
comment on function agent_internal.exchange_code(text) is 'Exchange the code of a link for a session of the console';

-- Args: _gives_until: when what it gives ends at the latest; a session is shorter than what opens it.
--       _ends: of what it is opened with; NULL: never.
create or replace function agent_internal.insert_session(
    _tenant text, _principal name, _scopes text[], _gives_until timestamptz, _ends timestamptz
)
    returns text
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _token constant text := agent_internal.random_token();
begin
    insert into agent.token (tenant, principal, label, purpose, digest, scopes, expires_at, gives_until)
    values (_tenant, _principal, 'console session', 'session', sha256(convert_to(_token, 'utf8')), _scopes,
            least(agent_internal.now() + interval '12 hours', _ends), _gives_until);
    return _token;
end;
$$;
