-- Audit: who changed, decided or was refused what.
--
-- Rows of one tenant form a chain: each has the digest of the one before, and numbers have no gaps.  So who appends to it
-- must wait for the transaction that appended before.  To hold no lock that others wait for while it waits for theirs, a
-- transaction collects its entries and appends them as the last act of its commit: the heads of the chains are the last
-- locks of any transaction, in the order of tenants.
--
-- An entry names what was done to what, by whom.  It has no values of user tables, no arguments of tools and no secrets.

create table agent.audit (
    tenant    text collate "C" not null,  -- without a foreign key: the audit outlives its tenant
    number    bigint not null,
    at        timestamptz not null,
    principal name not null,
    login     name not null,
    action    text not null,
    object    text not null,
    detail    jsonb not null,
    previous  bytea not null,
    digest    bytea not null,
    primary key (tenant, number)
);
comment on table agent.audit is 'Audit: append-only, with a hash chain for each tenant';
comment on column agent.audit.tenant is 'Tenant that it concerns';
comment on column agent.audit.number is 'Number in the chain of the tenant, from 1, without gaps';
comment on column agent.audit.at is 'Time of the statement';
comment on column agent.audit.principal is 'Who did it';
comment on column agent.audit.login is 'Database role of the session';
comment on column agent.audit.action is 'What was done: noun.verb, such as approval.approved';
comment on column agent.audit.object is 'What it was done to';
comment on column agent.audit.detail is 'More of it: names and numbers, no row data and no secrets';
comment on column agent.audit.previous is 'Digest of the row before; of row 1, 32 zero bytes';
comment on column agent.audit.digest is 'SHA-256 of the row and of the digest before';

create table agent_internal.audit_head (
    tenant text collate "C" primary key,
    number bigint not null,
    digest bytea not null
);
comment on table agent_internal.audit_head is 'Last row of the audit of each tenant';

create table agent_internal.audit_entry (
    id    bigint primary key generated always as identity,
    entry jsonb not null,
    due   boolean not null default false
);
comment on table agent_internal.audit_entry is 'Entries of the audit that their transaction has not numbered yet; empty for all others';

-- `walagent audit verify` computes the same in a statement of its own: who can rewrite rows can also rewrite functions.
create function agent_internal.audit_digest(_row agent.audit)
    returns bytea
    language sql
    stable
as $$
    select sha256(_row.previous || convert_to(jsonb_build_array(
        _row.tenant, _row.number, extract(epoch from _row.at), _row.principal, _row.login, _row.action, _row.object,
        _row.detail)::text, 'utf8'))
$$;

-- Append a row to the audit of a tenant, by default that of the caller, at the commit.
create function agent_internal.audit(_action text, _object text, _detail jsonb default '{}', _tenant text default null)
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
create function agent_internal.mark_audit_entry()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (select from agent_internal.audit_entry where due) then
        update agent_internal.audit_entry set due = true where id = new.id;
    end if;
    return null;
end;
$$;
create constraint trigger mark_audit_entry
    after insert on agent_internal.audit_entry
    deferrable initially deferred
    for each row execute function agent_internal.mark_audit_entry();

-- The second: number all entries of the transaction.  Those of others are not visible.
create function agent_internal.append_audit()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _row agent.audit;
begin
    for _row in
        select (jsonb_populate_record(null::agent.audit, e.entry)).*
          from agent_internal.audit_entry e
         order by (e.entry ->> 'tenant') collate "C", e.id
    loop
        insert into agent_internal.audit_head as h (tenant, number, digest)
        values (_row.tenant, 1, decode(repeat('00', 32), 'hex'))
        on conflict (tenant) do update set number = h.number + 1
        returning number, digest into _row.number, _row.previous;
        _row.digest := agent_internal.audit_digest(_row);
        insert into agent.audit select _row.*;
        update agent_internal.audit_head set digest = _row.digest where tenant = _row.tenant;
    end loop;
    delete from agent_internal.audit_entry;
    return null;
end;
$$;
create constraint trigger append_audit
    after update of due on agent_internal.audit_entry
    deferrable initially deferred
    for each row execute function agent_internal.append_audit();

-- Rows are never changed.  Those of a tenant that does not exist any more can be removed, by the owner.
create function agent_internal.refuse_change_of_audit()
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
create trigger refuse_change before update or delete on agent.audit
    for each row execute function agent_internal.refuse_change_of_audit();
create trigger refuse_truncate before truncate on agent.audit
    for each statement execute function agent_internal.refuse_change_of_audit();

-- Record a change of a definition: which columns, not their values.
--
-- Args: the noun; the columns of the key; the columns whose values are recorded.
create function agent_internal.audit_change()
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
                             and n.key not in ('version', 'updated_at', 'definition')
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

create trigger audit_change after insert or update or delete on agent.attachment
    for each row execute function agent_internal.audit_change('attachment', 'name', 'version,agent,run_as');
create trigger audit_change after insert or update or delete on agent.agent
    for each row execute function agent_internal.audit_change('agent', 'name', 'version');
create trigger audit_change after insert or update or delete on agent.model
    for each row execute function agent_internal.audit_change('model', 'name', '');
create trigger audit_change after insert or update or delete on agent.tool
    for each row execute function agent_internal.audit_change('tool', 'name', 'kind,effect,risk,approval,enabled');
create trigger audit_change after insert or update or delete on agent.budget
    for each row execute function agent_internal.audit_change('budget', 'name', '');
create trigger audit_change after insert or update or delete on agent.tenant
    for each row execute function agent_internal.audit_change('tenant', 'name', 'active');
create trigger audit_change after insert or update or delete on agent.principal
    for each row execute function agent_internal.audit_change('principal', 'name', 'kind,login,active');
create trigger audit_change after insert or update or delete on agent.role_grant
    for each row execute function agent_internal.audit_change('role_grant', 'principal,role', 'expires_at');
create trigger audit_change after insert or update or delete on agent.token
    for each row execute function agent_internal.audit_change('token', 'id', 'principal,scopes,expires_at');

select agent_internal.isolate('agent.audit');
-- Appended by the commit of anyone who acts, also for a tenant that it does not act in any more.
create policy append on agent.audit for insert with check (true);
create policy auditor on agent.audit as restrictive for select
    using ((select agent_internal.all_tenants()) or (select agent.has_role('auditor')));

revoke all on agent.audit, agent_internal.audit_head, agent_internal.audit_entry from public;
revoke all on function agent_internal.audit_digest(agent.audit), agent_internal.audit(text, text, jsonb, text),
    agent_internal.mark_audit_entry(), agent_internal.append_audit(), agent_internal.audit_change(),
    agent_internal.refuse_change_of_audit() from public;
select agent_internal.permit('viewer', 'select on agent.audit');
