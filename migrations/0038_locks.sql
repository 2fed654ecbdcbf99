-- Locks that nobody else can hold, and filters of publications from before 0036.

-- Anyone who can connect can hold an advisory lock without limit.  These tables are empty; only their owner, and the functions
-- below, may lock them in a mode that conflicts with another.  A lock of a table, not of a row: that would give the
-- transaction an ID, and the creation of a slot waits for each transaction with an ID.
create table agent_internal.slot_lock ();
create table agent_internal.apply_lock ();
revoke all on agent_internal.slot_lock, agent_internal.apply_lock from public;
comment on table agent_internal.slot_lock is 'Locked by the process that creates the replication slot';
comment on table agent_internal.apply_lock is 'Locked by the transaction that applies a file';

-- Wait until no other process creates the slot; the lock is held until the transaction ends.
create function agent_internal.lock_slot()
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
create function agent_internal.lock_alone(_table regclass, _what text)
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
create function agent_internal.lock_apply()
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
revoke all on function agent_internal.lock_slot(), agent_internal.lock_apply(), agent_internal.lock_alone(regclass, text) from public;

-- Roles that were granted before need what is new: runners, and developers.
select agent_internal.grant_as('agent_internal.lock_slot()', 'agent_internal.begin_tick()'),
       agent_internal.grant_as('agent_internal.lock_apply()', 'agent_internal.begin_tick()'),
       agent_internal.grant_as('agent_internal.lock_apply()', 'agent.attach(text,text)');

-- The owner parses a filter each time it publishes a table, even one that PostgreSQL then refuses.  A filter that was
-- recorded before 0036 can have a literal of a type whose input executes code of others; to ask
-- agent_internal.row_filter() would be to parse it.  Its text tells: PostgreSQL writes what is not its own with the name of
-- a schema.  The reader then evaluates the condition of such an attachment, as it does that of any other: no row is lost.
create function pg_temp.names_a_schema(_filter text)
    returns boolean
    language sql
    immutable
as $$
    select regexp_replace(regexp_replace(_filter, '''(?:[^'']|'''')*''', '0', 'g'), '"(?:[^"]|"")*"', 'x', 'g')
           ~ '[[:alpha:]_][[:alnum:]_$]*\s*\.\s*[[:alpha:]_]'
$$;

alter table agent.attachment disable trigger user;  -- they would compile the condition, as the owner
with changed as (
    update agent.attachment
       set server_filter = false,
           definition = definition || '{"server_filter": false, "row_filter": null}'
     where server_filter and pg_temp.names_a_schema(definition ->> 'row_filter')
    returning relation)
update agent_internal.requested_table t
   set row_filter = null
  from changed c
 where t.requester = 'intake' and t.relation = c.relation;
alter table agent.attachment enable trigger user;

drop function pg_temp.names_a_schema(text);
