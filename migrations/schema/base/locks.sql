-- Limit lock waits for the rest of the transaction, so that the application wins a lock conflict.
--
-- A tool's lock wait ends long before the deadlock check of a transaction that waits for the tool: in a deadlock,
-- that check would cancel the application's transaction.  The short wait also bounds how long the application
-- waits for a lock that a waiting tool holds.  If the tool closes the cycle, its own check cancels it: at once if
-- the owner may set deadlock_timeout (grant set on parameter deadlock_timeout), otherwise the short wait
-- resolves most cases.
create or replace function agent_internal.limit_lock_waits()
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _check constant numeric := extract(epoch from current_setting('deadlock_timeout')::interval) * 1000;
    _asked constant numeric := extract(epoch from current_setting('lock_timeout')::interval) * 1000;
begin
    perform set_config('lock_timeout', least(nullif(_asked, 0), greatest(round(_check / 10), 10), 5000)::text, true);
    if has_parameter_privilege('deadlock_timeout', 'set') then
        perform set_config('deadlock_timeout', '10ms', true);
    end if;
end;
$$;

-- Share a lock for the rest of the transaction; waits while another transaction has it.
create or replace function agent_internal.share_lock(_name text)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform from agent_internal.lock l where l.name = _name for share;
end;
$$;

-- Wait until no other process creates the slot; the lock is held until the transaction ends.
create or replace function agent_internal.lock_slot()
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    lock table agent_internal.slot_lock in exclusive mode;
end;
$$;
comment on function agent_internal.lock_slot() is 'Wait until no other process creates the replication slot';

-- Lock one of walagent's tables for the rest of the transaction, within the caller's lock_timeout.
--
-- Raises 55P03, which names who holds it.
create or replace function agent_internal.lock_alone(_table regclass, _what text)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _holder record;
begin
    execute format('lock table %s in exclusive mode', _table);
exception when lock_not_available then
    select l.pid, coalesce(a.usename, '?') as who, coalesce(a.application_name, '?') as application into _holder
      from pg_locks l left join pg_stat_activity a using (pid)
     where l.locktype = 'relation' and l.relation = _table and l.granted
       and l.database = (select oid from pg_database where datname = current_database());
    raise exception '% for %: PID %, role "%", application "%"', _what, current_setting('lock_timeout'),
        _holder.pid, _holder.who, _holder.application
        using errcode = '55P03', hint = format('Wait for it, or run select pg_terminate_backend(%s).', _holder.pid);
end;
$$;
comment on function agent_internal.lock_alone(regclass, text) is 'Lock a table for the rest of the transaction, or name who holds it';

-- Wait until no other transaction applies a file.  Each developer may apply one, so none can make another wait for long.
--
-- Raises 55P03 after 10 s.
create or replace function agent_internal.lock_apply()
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '10s'
as $$
begin
    perform agent_internal.lock_alone('agent_internal.apply_lock', 'another process has been applying a file');
end;
$$;
comment on function agent_internal.lock_apply() is 'Wait until no other transaction applies a file';

-- Wait until no other transaction grants: at once, one of them fails with "tuple concurrently updated".  Who attaches an
-- agent to a table can hold it, since that creates a trampoline, and could keep the transaction open.
--
-- Raises 55P03 after 10 s.
create or replace function agent_internal.lock_grants()
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '10s'
as $$
begin
    perform agent_internal.lock_alone('agent_internal.privilege', 'another transaction has been granting');
end;
$$;
comment on function agent_internal.lock_grants() is 'Wait until no other transaction grants privileges';
