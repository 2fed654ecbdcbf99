-- Number the entries of the audit that wait for the commit, while this transaction can write: code of others that follows
-- could make it read-only, or check its constraints where it is.
create or replace function agent_internal.number_audit()
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (select from agent_internal.audit_entry where not is_left) then
        set constraints agent_internal.mark_audit_entry immediate;
        set constraints agent_internal.append_audit immediate;
    end if;
end;
$$;

-- End what code of others could still do in this transaction: no cursor WITH HOLD is left to be executed at the commit, and
-- nothing else that is executed there can write.
create or replace function agent_internal.seal(_durable text)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    execute 'close all';
    perform agent_internal.number_audit();
    perform set_config('synchronous_commit', _durable, true), set_config('transaction_read_only', 'on', true);
end;
$$;

-- `walagent tenants audit verify` computes the same in a statement of its own: who can rewrite rows can also rewrite functions.
create or replace function agent_internal.audit_digest(_row agent.audit)
    returns bytea
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select sha256(_row.previous || convert_to(jsonb_build_array(
        _row.tenant, _row.number, extract(epoch from _row.at), _row.principal, _row.login, _row.action, _row.object,
        _row.detail)::text, 'utf8'))
$$;

-- Append a row to the audit of a tenant, by default that of the caller, at the commit.
create or replace function agent_internal.audit(_action text, _object text, _detail jsonb default '{}', _tenant text default null)
    returns void
    language sql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
    insert into agent_internal.audit_entry (entry)
    values (jsonb_build_object(
        'tenant', coalesce(_tenant, agent.current_tenant(), 'default'), 'at', agent_internal.now(),
        'principal', coalesce(agent.current_principal(), session_user), 'login', session_user,
        'action', _action, 'object', coalesce(_object, ''), 'detail', jsonb_strip_nulls(coalesce(_detail, '{}'))))
$$;
comment on function agent_internal.audit(text, text, jsonb, text) is 'Append a row to the audit';

-- The first of two steps of a commit: what it queues comes after all that other deferred triggers do and lock.
create or replace function agent_internal.mark_audit_entry()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _entered constant boolean := agent_internal.enter();
begin
    if not exists (select from agent_internal.audit_entry where due and not is_left) then
        update agent_internal.audit_entry set due = true where id = new.id;
    end if;
    perform agent_internal.leave(_entered);
    return null;
end;
$$;

-- Append all entries of a tenant: those of this transaction, and those that others have left.  A lock of the head is held
-- from a number to the commit, and anybody can let constraints be checked long before a commit: it is waited for briefly.
--
-- Returns whether they were appended.
create or replace function agent_internal.number_entries(_tenant text)
    returns boolean
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '900ms'
as $$
declare
    _row  agent.audit;
    _head agent_internal.audit_head;
begin
    insert into agent_internal.audit_head as h (tenant, number, digest)
    values (_tenant, 0, decode(repeat('00', 32), 'hex'))
    on conflict (tenant) do update set number = h.number
    returning * into _head;
    for _row in
        with taken as (delete from agent_internal.audit_entry e where e.entry ->> 'tenant' = _tenant returning e.id, e.entry)
        select (jsonb_populate_record(null::agent.audit, t.entry)).* from taken t order by t.id
    loop
        _head.number := _head.number + 1;
        _row.number := _head.number;
        _row.previous := _head.digest;
        _row.digest := agent_internal.audit_digest(_row);
        _head.digest := _row.digest;
        insert into agent.audit select _row.*;
    end loop;
    update agent_internal.audit_head h set number = _head.number, digest = _head.digest where h.tenant = _tenant;
    return true;
exception when lock_not_available or deadlock_detected then
    return false;
end;
$$;

-- The second: number all entries of the transaction, or leave them to the next one of their tenant and to the tick.
create or replace function agent_internal.append_audit()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _entered constant boolean := agent_internal.enter();
    _tenant text;
begin
    for _tenant in
        select distinct (e.entry ->> 'tenant') collate "C" from agent_internal.audit_entry e where not e.is_left order by 1
    loop
        if not agent_internal.number_entries(_tenant) then
            update agent_internal.audit_entry e set is_left = true where e.entry ->> 'tenant' = _tenant and not e.is_left;
        end if;
    end loop;
    perform agent_internal.leave(_entered);
    return null;
end;
$$;

-- Number what was left, of each tenant whose head is free.
create or replace function agent_internal.number_left_entries()
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.number_entries(h.tenant)
       from (select h.tenant
               from agent_internal.audit_head h
              where h.tenant in (select e.entry ->> 'tenant' from agent_internal.audit_entry e where e.is_left)
              order by h.tenant collate "C"
                for update skip locked) h;
end;
$$;

-- Rows are never changed.  Those of a tenant that does not exist any more can be removed, by the owner.
create or replace function agent_internal.refuse_change_of_audit()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if tg_op = 'DELETE' and not exists (select from agent.tenant t where t.name = old.tenant) then
        return old;
    end if;
    raise exception 'rows of agent.audit are never changed' using errcode = '42501';
end;
$$;

-- Record a change of a definition: which columns, not their values.
--
-- Args: the noun; the columns of the key; the columns whose values are recorded.
create or replace function agent_internal.audit_change()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _old     constant jsonb := case when tg_op <> 'INSERT' then to_jsonb(old) end;
    _new     constant jsonb := case when tg_op <> 'DELETE' then to_jsonb(new) end;
    _row     constant jsonb := coalesce(_new, _old);
    _keys    constant text[] := string_to_array(tg_argv[1], ',');
    _shown   constant text[] := string_to_array(nullif(tg_argv[2], ''), ',');
    _changed text[];
    _verb    text;
begin
    if tg_op = 'UPDATE' then
        _changed := array(select n.key from jsonb_each(_new) n
                           where n.value is distinct from _old -> n.key
                             and n.key not in ('version', 'updated_at', 'definition', 'canary', 'canary_share', 'canary_definition', 'canary_shadow')
                           order by 1);
        if _changed = '{}' then
            return null;
        end if;
    end if;
    _verb := case
        when tg_op = 'INSERT' then 'created'
        when tg_op = 'DELETE' then 'deleted'
        when _changed <@ '{paused,paused_reason,paused_by}' then case when (_new ->> 'paused')::boolean then 'paused' else 'resumed' end
        when _changed = '{revoked_at}' then 'revoked'
        else 'changed' end;
    perform agent_internal.audit(
        tg_argv[0] || '.' || _verb,
        (select string_agg(_row ->> k, ' ' order by n) from unnest(_keys) with ordinality as x (k, n)),
        coalesce((select jsonb_object_agg(s, _row -> s) from unnest(_shown) s), '{}')
            || case when _verb = 'changed' then jsonb_build_object('columns', _changed) else '{}' end,
        -- A row of the tenant table is about the tenant itself; that of its end is kept where it can be read.
        case when tg_argv[0] <> 'tenant' then _row ->> 'tenant' when tg_op = 'DELETE' then 'default' else _row ->> 'name' end);
    return null;
end;
$$;
comment on function agent_internal.audit_change() is 'Trigger that records changes of a definition: noun, columns of the key, columns whose values are recorded';

-- Append to the audit that a request of the caller was refused, in a transaction of its own.
--
-- Args: _request: its name, such as mutation console.approve; no arguments.
create or replace function agent_internal.audit_refused_request(_request text, _sqlstate text)
    returns void
    language sql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
    select agent_internal.audit('request.refused', left(_request, 200), jsonb_build_object('sqlstate', _sqlstate))
$$;
comment on function agent_internal.audit_refused_request(text, text) is 'Append to the audit that a request of the caller was refused';
