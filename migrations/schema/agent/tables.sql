create table agent.agent (
    name                text not null check (name <> '' and name <> '(walagent)'),
    version             integer not null default 1,
    model               text,
    system_prompt       text not null default '',
    tools               text[] not null default '{}',
    tool_choice         text not null default 'auto',
    examples            jsonb not null default '[]' check (jsonb_typeof(examples) = 'array'),
    parameters          jsonb not null default '{}' check (jsonb_typeof(parameters) = 'object'),
    max_steps           integer not null default 20 check (max_steps > 0),
    max_tokens          bigint check (max_tokens > 0),
    max_cost            numeric check (max_cost > 0),
    max_seconds         integer not null default 600 check (max_seconds > 0),
    max_attempts        integer not null default 5 check (max_attempts > 0),
    max_output_tokens   integer check (max_output_tokens > 0),
    updated_at          timestamptz not null default now(),
    finish              text check (finish in ('answer', 'after_call')),
    tenant              text collate "C" not null default agent.current_tenant() references agent.tenant,
    model_scope         text collate "C" not null default '' check (model_scope in ('', tenant)),
    persona             text,
    persona_version     integer check (persona_version > 0),
    requests_per_minute integer check (requests_per_minute between 1 and 6000),
    thinking_visible    boolean not null default true,
    pause_before_tool   boolean not null default false,
    pause_after_tool    boolean not null default false,
    approve_from        text check (approve_from in ('low', 'medium', 'high', 'critical')),
    four_eyes           boolean,
    fallback            text,
    reuse               interval check (reuse > '0'),
    rows_per_request    integer check (rows_per_request between 2 and 100),
    tier                text not null default 'standard' check (tier in ('standard', 'flex', 'batch')),
    cascade             text[] not null default '{}',
    cascade_control     numeric not null default 0.02 check (cascade_control between 0 and 1),
    primary key (tenant, name),
    foreign key (model_scope, model) references agent.model,
    constraint has_model check (num_nonnulls(model, persona) > 0),
    constraint version_of_persona check (persona_version is null or persona is not null),
    constraint holds_no_key check (
    agent_internal.no_key(system_prompt, 'system_prompt') and agent_internal.no_key(parameters::text, 'parameters')
    and agent_internal.no_key(examples::text, 'examples'))
);

create table agent.agent_version (
    tenant     text collate "C" not null default agent.current_tenant() references agent.tenant,
    agent      text not null,
    version    integer not null,
    definition jsonb not null,
    made_by    name not null default agent.current_principal(),
    made_at    timestamptz not null default now(),
    primary key (tenant, agent, version)
);

-- Requests of the last minute, by what limits them: an agent, a persona, or a target of egress.
create table agent_internal.rate (
    tenant text collate "C" not null references agent.tenant on delete cascade,
    name   text not null,
    taken  timestamptz[] not null default '{}',
    primary key (tenant, name)
);
