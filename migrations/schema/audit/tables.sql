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

create table agent_internal.audit_head (
    tenant text collate "C" primary key,
    number bigint not null,
    digest bytea not null
);

create table agent_internal.audit_entry (
    id    bigint primary key generated always as identity,
    entry jsonb not null,
    due   boolean not null default false
);
