-- Turns: runs in which an agent takes part in a thread.  And what all kinds of runs share.
--
-- Kinds with a run to execute are agent (a change), question, turn (an event of a thread), node (a step of a workflow) and
-- delivery (a message to the outside).  The latter three may have an attachment; each run has a queue.

create or replace function agent_internal.fits_kind(
    _kind text, _reason text, _attachment_id bigint, _attachment_version integer, _principal name, _commit_lsn pg_lsn,
    _ordinal integer, _backfill_key text
)
    returns boolean
    language plpgsql
    immutable
as $$
begin
    return case
        when _kind = 'question' then _attachment_id is null and _principal is not null and _reason = 'question'
        when _kind = 'agent' or _kind in ('turn', 'node', 'delivery') and _attachment_id is not null then
            _attachment_id is not null and _attachment_version is not null
            and case _reason
                when 'change' then _commit_lsn is not null and _ordinal is not null
                when 'backfill' then _backfill_key is not null
                else _reason <> 'question'
            end
        else _attachment_id is null and _commit_lsn is null and _backfill_key is null
            and _reason not in ('change', 'backfill', 'question')
    end;
end;
$$;

alter table agent_internal.queue
    add column name text,
    drop constraint columns_fit_kind,
    add constraint columns_fit_kind check (case kind
        when 'agent' then attachment_id is not null and session_id is null and name is null
        when 'question' then session_id is not null and attachment_id is null and name is null
        when 'turn' then session_id is null and num_nonnulls(attachment_id, name) = 1
        else session_id is null and num_nonnulls(attachment_id, name) <= 1
    end);
create unique index queue_named on agent_internal.queue (kind, name) where name is not null;
comment on column agent_internal.queue.name is 'Name among the queues of its kind, if neither an attachment nor a session has it';

-- The queue of a kind under a name, which is created on first use.
create function agent_internal.queue_of(_kind text, _name text)
    returns bigint
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _id bigint;
begin
    select q.id into _id from agent_internal.queue q where q.kind = _kind and q.name = _name;
    if not found then
        insert into agent_internal.queue as q (kind, name) values (_kind, _name)
        on conflict (kind, name) where name is not null do update set name = q.name
        returning q.id into _id;
    end if;
    return _id;
end;
$$;
comment on function agent_internal.queue_of(text, text) is 'The queue of a kind under a name';
revoke all on function agent_internal.queue_of(text, text) from public;
