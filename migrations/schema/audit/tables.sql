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

create table agent_internal.audit_head (
    tenant text collate "C" primary key,
    number bigint not null,
    digest bytea not null
);

create table agent_internal.audit_entry (
    id    bigint primary key generated always as identity,
    entry jsonb not null,
    due     boolean not null default false,
    is_left boolean not null default false
);
