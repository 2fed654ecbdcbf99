-- Audit: who changed, decided or was refused what.

create table agent.audit (
    tenant    text collate "C" not null references agent.tenant,
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
comment on column agent.audit.detail is 'More of it';
comment on column agent.audit.previous is 'Digest of the row before; of row 1, 32 zero bytes';
comment on column agent.audit.digest is 'SHA-256 of the row and of the digest before';

create table agent_internal.audit_head (
    tenant text collate "C" primary key,
    number bigint not null,
    digest bytea not null
);
comment on table agent_internal.audit_head is 'Last row of the audit of each tenant';

create function agent_internal.audit_digest(_row agent.audit)
    returns bytea
    language sql
    stable
    set timezone = 'UTC'
as $$
    select sha256(_row.previous || convert_to(jsonb_build_array(_row.tenant, _row.number, _row.at, _row.principal, _row.login,
                                                                _row.action, _row.object, _row.detail)::text, 'utf8'))
$$;

-- Append a row to the audit of a tenant.  Rows of one tenant are numbered one after the other: who appends waits for the
-- transaction that appended before.
create function agent_internal.audit(_action text, _object text, _detail jsonb default '{}', _tenant text default null)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _row agent.audit;
begin
    _row.tenant := coalesce(_tenant, agent.current_tenant(), 'default');
    insert into agent_internal.audit_head as h (tenant, number, digest)
    values (_row.tenant, 1, decode(repeat('00', 32), 'hex'))
    on conflict (tenant) do update set number = h.number + 1
    returning number, digest into _row.number, _row.previous;
    _row.at := agent_internal.now();
    _row.principal := coalesce(agent.current_principal(), session_user);
    _row.login := session_user;
    _row.action := _action;
    _row.object := _object;
    _row.detail := _detail;
    _row.digest := agent_internal.audit_digest(_row);
    insert into agent.audit select _row.*;
    update agent_internal.audit_head set digest = _row.digest where tenant = _row.tenant;
end;
$$;
comment on function agent_internal.audit(text, text, jsonb, text) is 'Append a row to the audit';

create function agent_internal.refuse_change_of_audit()
    returns trigger
    language plpgsql
as $$
begin
    raise exception 'rows of agent.audit are never changed' using errcode = '42501';
end;
$$;
create trigger refuse_change before update or delete or truncate on agent.audit
    for each statement execute function agent_internal.refuse_change_of_audit();

select agent_internal.isolate('agent.audit');
revoke all on agent.audit, agent_internal.audit_head from public;
revoke all on function agent_internal.audit_digest(agent.audit), agent_internal.audit(text, text, jsonb, text),
    agent_internal.refuse_change_of_audit() from public;
