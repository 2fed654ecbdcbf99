-- Take over the checkpoint of a slot that is not abandoned; from then on, older readers can write nothing.
create or replace function agent_internal.take_checkpoint(_slot text, _reader text)
    returns agent.checkpoint
    language sql
    set search_path = pg_catalog, pg_temp
as $$
    update agent.checkpoint set epoch = epoch + 1, reader = _reader, updated_at = agent_internal.now(),
           reader_pid = (select s.active_pid from pg_replication_slots s where s.slot_name = _slot)
     where slot = _slot and abandoned_at is null
    returning *
$$;

-- Abandon a slot: record the gap and fence the reader.  The slot is dropped after the commit; if the process dies
-- in between, the next one drops it.
--
-- Returns the gap, or NULL if another reader has the checkpoint: then nothing is done.
create or replace function agent_internal.abandon_slot(_slot text, _epoch bigint, _reason text)
    returns bigint
    language sql
    set search_path = pg_catalog, pg_temp
as $$
    with held as (
        update agent.checkpoint
           set abandoned_at = agent_internal.now(), epoch = epoch + 1, updated_at = agent_internal.now()
         where slot = _slot and epoch = _epoch and abandoned_at is null
        returning slot, generation, end_lsn, committed_at
    )
    insert into agent.gap as g (slot, generation, from_lsn, to_lsn, since, reason)
    select slot, generation, end_lsn, pg_current_wal_lsn(), committed_at, _reason from held
    on conflict (slot, generation) where resolved_at is null do update set to_lsn = excluded.to_lsn
    returning g.id
$$;
comment on function agent_internal.abandon_slot(text, bigint, text) is 'Abandon a slot that retains too much WAL; called by its reader';

-- Advance the checkpoint, in the transaction that ingests the changes, and notify the workers if there are runs for them.
--
-- Raises WA007 if a newer reader has the checkpoint; the caller must then confirm nothing.
create or replace function agent_internal.advance_checkpoint(
    _slot text, _epoch bigint, _commit_lsn pg_lsn, _end_lsn pg_lsn, _for_workers boolean, _committed_at timestamptz default null
)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    update agent.checkpoint
       set commit_lsn = _commit_lsn, end_lsn = _end_lsn, updated_at = agent_internal.now(),
           committed_at = greatest(committed_at, _committed_at)
     where slot = _slot
       and epoch = _epoch  -- planted: no-fence-of-the-checkpoint
       and end_lsn <= _end_lsn;
    if not found then
        raise exception 'another reader took over the checkpoint of slot "%"', _slot using errcode = 'WA007';
    end if;
    if _for_workers then
        perform agent_internal.wake_workers();
    end if;
end;
$$;
