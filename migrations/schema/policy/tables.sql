-- Policies: what a tenant allows, refuses, changes, or lets a person decide, at the points where agents act.
--
-- A policy has a condition, a SQL expression over `call`, and an action.  Both conditions and transformations are executed
-- in the trampoline of the policy's role, in a subtransaction that is read-only and always rolled back.  A policy that
-- raises, returns NULL, or cannot be evaluated denies.
--
--   WA022   a tool, a policy or an egress rule refuses, or is not defined as it must be

create table agent.policy (
    tenant      text collate "C" not null default agent.current_tenant() references agent.tenant,
    name        text not null check (name <> ''),
    point       text not null check (point in ('tool', 'egress', 'retrieval', 'node')),
    phase       text not null default 'before' check (phase in ('before', 'after', 'error')),
    condition   text,
    action      text not null check (action in ('allow', 'deny', 'require', 'transform', 'escalate')),
    expression  text,
    message     text not null default '',
    priority    integer not null default 100,
    enabled     boolean not null default true,
    run_as      name not null default current_user,
    search_path text not null,
    compiled    jsonb not null,
    updated_at  timestamptz not null default now(),
    primary key (tenant, name),
    -- One that is never asked would look as if it protected something.
    constraint phase_of_point check (phase = 'before' or point = 'tool' or phase = 'after' and point <> 'egress'),
    constraint transforms_by_expression check ((action = 'transform') = (expression is not null)),
    constraint transforms_what_is_executed check (action <> 'transform' or point <> 'egress'),
    constraint holds_no_key check (
        agent_internal.no_key(condition, 'condition') and agent_internal.no_key(expression, 'expression')
        and agent_internal.no_key(message, 'message'))
);

create index policy_of_point on agent.policy (tenant, point, phase) where enabled;

create table agent.egress_rule (
    tenant              text collate "C" not null default agent.current_tenant() references agent.tenant,
    scheme              text not null default 'https' check (scheme in ('http', 'https')),
    host                text not null check (host ~ '^([a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])$'),
    port                integer not null default 443 check (port between 1 and 65535),
    methods             text[] not null default '{GET}'
                            check (methods <@ '{GET,HEAD,POST,PUT,PATCH,DELETE}' and cardinality(methods) > 0),
    max_bytes           integer not null default 1048576 check (max_bytes between 1 and 1048576),
    requests_per_minute integer not null default 60 check (requests_per_minute between 1 and 6000),
    made_by             name not null default current_user,
    primary key (tenant, scheme, host, port)
);
