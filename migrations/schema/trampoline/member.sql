-- Refuse a role that the login of this session cannot become.  Code of others, and what is in a trial, reads as none of the roles of
-- the person whose session it is.
--
-- Raises 42501.
create or replace function agent_internal.check_member(_role name)
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    if agent_internal.in_code() or exists (select from agent_internal.trial)
       or agent_internal.may_become((select r.oid from pg_roles r where r.rolname = session_user), _role) is not true then
        raise exception '"%" cannot become role "%"', session_user, _role using errcode = '42501';
    end if;
end;
$$;

-- Execute a statement that reads as a role that the login is a member of, in a transaction that is read-only from here on.
--
-- For a login that asks and cannot sign: what the statement fires has the role's rights, and not those of the person who asks.
-- It gives nobody a right: a member can become the role.  Roll the transaction back, and discard what the session has.
--
-- Returns rows, see agent_internal.trampoline_body().
-- Raises 42501 unless the login is a member, WA016 as agent_internal.trampoline_of() does, and what the statement raises.
create or replace function agent_internal.read_as_member(_role name, _sql text, _path text)
    returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _through constant text := agent_internal.trampoline_of(_role);
    _who     constant record := agent_internal.identity();
    _result  text;
begin
    perform agent_internal.check_member(_role);
    perform set_config('transaction_read_only', 'on', true);
    if _who.principal is not null and _who.named then
        perform agent_internal.assume(_who.tenant, _who.principal, _who.scopes, _who.until);
    end if;
    _result := agent_internal.go_through(_through, _sql, null, null, _path, true, false);
    execute 'close all';
    return _result;
end;
$$;
comment on function agent_internal.read_as_member(name, text, text) is 'Execute a statement that reads, as a role of which the login is a member';

-- Create the trampoline of a role of which the login is a member, unless it has one: with the rights of the owner of the
-- schema, who need not be a member if it is a superuser.  A function with the rights of its owner may set no role, so the
-- trampoline is created first, and given away.
--
-- Raises 42501 if the login is no member, or the owner may not give it a function.
create or replace function agent_internal.make_trampoline_of_member(_role name)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _name  constant text := (select 'agent_call.as_' || oid from pg_roles where rolname = _role)
                            || '(_sql text, _arguments jsonb, _texts text[], _path text, _rows boolean, _last boolean)';
    _owner constant name := current_user;
begin
    perform agent_internal.check_member(_role);
    begin
        perform agent_internal.trampoline_of(_role);
        return;
    exception when sqlstate 'WA016' then
        null;
    end;
    if not agent_internal.open_trampoline(_role) then
        return;
    end if;
    execute format(
        'create function %s returns text language plpgsql security definer'
        ' set search_path = pg_catalog, pg_temp set standard_conforming_strings = on as %L', _name, agent_internal.trampoline_body());
    execute format('revoke all on function %s from public', _name);
    begin
        execute format('alter function %s owner to %I', _name, _role);
    exception when insufficient_privilege then
        raise exception 'the owner of the schema cannot give a function to role "%"', _role
            using errcode = '42501', hint = format('As a superuser, run select agent_internal.make_trampoline(%L).', _role);
    end;
    execute format('grant execute on function %s to %I', _name, _owner);
    perform agent_internal.close_trampoline(_role);
end;
$$;
