-- Tenants, principals and their roles, and who the caller is.
--
-- A tenant is an organisation.  A principal is a person, an agent or a service in it.  Who acts follows from the session:
--
--   a token        agent.act_as(token), until the end of the transaction
--   a login        of a principal that has it; a login of no principal acts in the tenant `default` under its own name,
--                unless a principal or agent there has it
--   a tool         the agent whose run it belongs to: its worker signs it with the request
--
-- With one tenant, none of this matters: all rows are of `default`, and what a login may do follows from its
-- privileges alone.  A principal may do what its login's privileges and its roles both allow.
--
-- Each table with a column `tenant` has row-level security, enabled and forced: see policies.sql of each noun.  Functions with
-- the owner's rights are subject to it, too, because who acts follows from the session, not from the current role.
-- The owner and the runner see all tenants, unless they act as somebody.

create table agent.tenant (
    name         text collate "C" primary key check (name ~ '^[A-Za-z0-9][A-Za-z0-9_.@-]{0,62}$'),
    id           uuid not null unique default gen_random_uuid(),
    display_name text not null default '',
    active       boolean not null default true,
    settings     jsonb not null default '{}' check (jsonb_typeof(settings) = 'object'),
    max_running  integer check (max_running >= 0),
    max_queued   integer check (max_queued >= 0),
    created_at   timestamptz not null default now(),
    constraint settings_of_approvals check (
    coalesce(settings ->> 'approve_from', 'low') in ('low', 'medium', 'high', 'critical')
    and jsonb_typeof(coalesce(settings -> 'four_eyes', 'true')) = 'boolean')
);

create table agent.principal (
    tenant       text collate "C" not null references agent.tenant,
    name         name not null check (name::text ~ '^[^[:cntrl:]]+$' and name <> '(walagent)'),
    id           uuid not null unique default gen_random_uuid(),
    kind         text not null default 'user' check (kind in ('user', 'agent', 'service')),
    login        name unique,
    links_of     name,
    is_login     boolean not null default false,
    display_name text not null default '',
    email        text check (email ~ '^[^@\s<>,;"]+@[^@\s<>,;"]+$' and length(email) <= 320),
    active       boolean not null default true,
    metadata     jsonb not null default '{}' check (jsonb_typeof(metadata) = 'object'),
    created_at   timestamptz not null default now(),
    primary key (tenant, name),
    unique (tenant, id)
);

create table agent.role_grant (
    tenant     text collate "C" not null,
    principal  name not null,
    role       text not null check (role in ('admin', 'developer', 'approver', 'auditor', 'agent', 'viewer')),
    granted_by name not null,
    granted_at timestamptz not null default now(),
    expires_at timestamptz,
    primary key (tenant, principal, role),
    foreign key (tenant, principal) references agent.principal on delete cascade
);

-- Logins of principals, without row-level security: the policies themselves read it.  And what principals and agents of the
-- tenant `default` are called: a login of that name is not that one.  Nor is a role that was created later with the name of a login.
create table agent_internal.login (
    login     name not null,
    taken_by  text not null check (taken_by in ('login', 'principal', 'agent')),
    tenant    text collate "C" not null,
    principal name not null,
    active    boolean not null,
    role      oid,  -- of the login when it became the principal's
    primary key (login, taken_by)
);

-- Tokens of principals.  Only a digest is stored: a token has 256 random bits, so a plain digest cannot be reversed.
create table agent.token (
    tenant     text collate "C" not null,
    id         uuid not null default gen_random_uuid(),
    principal  name not null,
    label      text not null default '',
    purpose    text not null default 'token' check (purpose in ('token', 'link', 'session')),
    digest     bytea not null unique check (octet_length(digest) = 32),
    scopes     text[] not null default '{}' check (scopes <@ '{read,post,approve,develop,admin}'),
    created_at timestamptz not null default now(),
    expires_at timestamptz,
    gives_until timestamptz check (gives_until is null or purpose = 'session'),
    revoked_at timestamptz,
    primary key (tenant, id),
    foreign key (tenant, principal) references agent.principal on delete cascade
);
