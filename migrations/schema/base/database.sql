create or replace function agent_internal.present_database(out system_id text, out oid oid)
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    system_id := '';
    if has_function_privilege('pg_catalog.pg_control_system()', 'execute') then
        system_id := (select c.system_identifier::text from pg_catalog.pg_control_system() c);
    end if;
    oid := (select d.oid from pg_catalog.pg_database d where d.datname = current_database());
end;
$$;

-- Return the identity of the database.  Raises WA017 in a copy of it.
create or replace function agent_internal.check_database()
    returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _stored  agent_internal.database;
    _present record;
begin
    select * into _stored from agent_internal.database;
    select * into _present from agent_internal.present_database();
    if _stored.id is null then
        insert into agent_internal.database (system_id, oid) values (_present.system_id, _present.oid)
        on conflict do nothing;
        select * into _stored from agent_internal.database;
    elsif (_stored.system_id, _stored.oid) is distinct from (_present.system_id, _present.oid) then
        raise exception 'this database is a copy: it has OID % on the server with system identifier %, expected OID % on %',
            _present.oid, _present.system_id, _stored.oid, _stored.system_id
            using errcode = 'WA017',
                  hint = 'Use walagent database adopt --moved if the original is not used any more, or walagent database adopt --copy if it is.';
    end if;
    return _stored.id;
end;
$$;
comment on function agent_internal.check_database() is 'Identity of the database; raises WA017 in a copy';

-- Let a copy execute runs.
--
-- Args: _moved: the original is not used any more: all runs continue, and calls have the keys that they had.  Otherwise
-- the unfinished runs are cancelled, because the original executes them, and keys are different from now on.
-- Returns the number of cancelled runs; NULL: it is no copy, and nothing was done.
create or replace function agent_internal.adopt_database(_moved boolean)
    returns bigint
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _present record;
    _count   bigint := 0;
    _before  text;
begin
    select * into _present from agent_internal.present_database();
    select d.system_id into _before from agent_internal.database d
      where (d.system_id, d.oid) is distinct from (_present.system_id, _present.oid) for update;
    if not found then
        return null;
    end if;
    if _before <> _present.system_id or _before = '' then  -- or it could be: roles of another server have other OIDs
        update agent_internal.login l set role = to_regrole(quote_ident(l.login)) where l.taken_by = 'login';
    end if;
    if not _moved then
        update agent.approval set state = 'cancelled', decided_at = agent_internal.now() where state = 'pending';
        update agent.run
           set state = 'cancelled', lease_expires_at = null, next_attempt_at = null, not_before = null, blocked_by = null,
               cancel_requested = false, finished_at = agent_internal.now(),
               error = jsonb_build_object('reason', 'this database is a copy: the original continues the run')
         where state in ('pending', 'running', 'waiting_approval', 'waiting_retry', 'needs_review');
        get diagnostics _count = row_count;
        perform agent_internal.release_lost();
        delete from agent.worker;
    end if;
    update agent_internal.database
       set id = case when _moved then id else left(replace(gen_random_uuid()::text, '-', ''), 16) end,
           system_id = _present.system_id, oid = _present.oid, adopted_at = agent_internal.now(),
           made_at = pg_current_wal_insert_lsn();
    return _count;
end;
$$;
comment on function agent_internal.adopt_database(boolean) is 'Let a copy of the database execute runs';
