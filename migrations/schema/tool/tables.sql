create table agent.tool (
    name            text not null check (name ~ '^[A-Za-z_][A-Za-z0-9_]{0,63}$'),
    kind            text not null,
    target          text not null,
    description     text not null default '',
    input_schema    jsonb check (jsonb_typeof(input_schema) = 'object'),
    effect          text not null default 'transactional'
                        check (effect in ('read', 'transactional', 'idempotent', 'unsafe')),
    risk            text not null default 'low' check (risk in ('low', 'medium', 'high', 'critical')),
    approval        boolean not null default false,
    timeout_seconds integer not null default 30 check (timeout_seconds > 0),
    bind            jsonb not null default '{}' check (jsonb_typeof(bind) = 'object'),
    enabled         boolean not null default true,
    fingerprint     text,
    http            jsonb check (jsonb_typeof(http) = 'object'),
    tenant          text collate "C" default case when not agent_internal.all_tenants() then agent.current_tenant() end references agent.tenant,
    scope           text collate "C" generated always as (coalesce(tenant, '')) stored,
    version         integer not null default 1,
    output_schema   jsonb check (jsonb_typeof(output_schema) = 'object'),
    retries         integer check (retries between 0 and 10),
    retry_seconds   numeric not null default 1 check (retry_seconds between 0 and 60),
    llm             jsonb check (jsonb_typeof(llm) = 'object'),
    source          text not null default 'sql' check (source in ('sql', 'file')),  -- a file's: apply --prune removes it
    check ((kind = 'mcp') = (fingerprint is not null)),
    check ((kind = 'http') = (http is not null)),
    primary key (scope, name),
    constraint holds_no_key check (
    agent_internal.no_key(target, 'target') and agent_internal.no_key(description, 'description')
    and agent_internal.no_key(http::text, 'http')),
    constraint tool_kind_check check (kind in ('sql', 'python', 'mcp', 'http', 'builtin', 'llm')),
    check ((kind = 'llm') = (llm is not null)),
    constraint llm_is_repeated check (kind <> 'llm' or effect = 'idempotent'),
    constraint retries_after_rollback check (coalesce(retries, 0) = 0 or effect in ('read', 'transactional'))
);

create table agent.tool_version (
    tenant     text collate "C" references agent.tenant,
    scope      text collate "C" generated always as (coalesce(tenant, '')) stored,
    tool       text not null,
    version    integer not null,
    definition jsonb not null,
    enabled    boolean not null default true,
    made_at    timestamptz not null default now(),
    primary key (scope, tool, version)
);

create table agent.role_tool (
    tenant  text collate "C" not null default agent.current_tenant() references agent.tenant,
    role    text not null check (role in ('admin', 'developer', 'approver', 'auditor', 'agent', 'viewer')),
    tool    text not null,
    allowed jsonb check (jsonb_typeof(allowed) = 'object'),
    denied  jsonb not null default '{}' check (jsonb_typeof(denied) = 'object'),
    made_by name not null default current_user,
    primary key (tenant, role, tool),
    constraint values_are_lists check (not jsonb_path_exists(
        jsonb_build_array(allowed, denied), 'strict $[*] ? (@.type() == "object").* ? (@.type() != "array" && @ != true)'))
);
