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
    elsif exists (select from agent.token t where t.digest = sha256(convert_to(_token, 'utf8')) and t.label = 'console link') then
        raise exception 'this is a code of a link, not a token' using errcode = 'WA018';
    end if;
    return agent_internal.insert_session(_me.tenant, _me.principal, _me.scopes, _me.until);
end;
$$;
comment on function agent_internal.open_session(text) is 'Open a session of the console for the principal of this transaction';

-- Exchange the code of a link, which is a token for five minutes that can only read, for a session of its principal: once.
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
     where t.digest = sha256(convert_to(_code, 'utf8')) and t.label = 'console link' and t.revoked_at is null;
    if not found then
        raise exception 'the code is unknown, expired or was used' using errcode = 'WA018';
    end if;
    _me := agent_internal.identity();
    return agent_internal.insert_session(_me.tenant, _me.principal, '{}', null);
end;
$$;
comment on function agent_internal.exchange_code(text) is 'Exchange the code of a link for a session of the console';

create or replace function agent_internal.insert_session(_tenant text, _principal name, _scopes text[], _until timestamptz)
    returns text
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _token constant text := agent_internal.random_token();
begin
    insert into agent.token (tenant, principal, label, digest, scopes, expires_at)
    values (_tenant, _principal, 'console session', sha256(convert_to(_token, 'utf8')), _scopes,
            least(agent_internal.now() + interval '12 hours', _until));
    return _token;
end;
$$;
