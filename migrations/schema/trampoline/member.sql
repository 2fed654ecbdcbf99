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
    _result  text;
begin
    if not pg_has_role(session_user, _role, 'member') then
        raise exception '"%" is not a member of role "%"', session_user, _role using errcode = '42501';
    end if;
    perform set_config('transaction_read_only', 'on', true);
    execute format('select %s($1, null, null, $2, true, true)', _through) into _result using _sql, _path;
    execute 'close all';
    return _result;
end;
$$;
comment on function agent_internal.read_as_member(name, text, text) is 'Execute a statement that reads, as a role of which the login is a member';
