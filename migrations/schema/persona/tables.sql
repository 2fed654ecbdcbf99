-- Personas, the versions of personas and agents, and what an agent's version consists of.
--
-- An agent has a persona, or none.  What a run uses follows from model, persona and agent, in this order:
--
--   model           the agent's, else the persona's
--   parameters      of the model, overridden by those of the persona, overridden by those of the agent
--   prompt          the persona's prompt, rules and traits, then the agent's prompt
--   limits          the lower one of persona and agent
--
-- Each change of a persona or an agent is a version that never changes.  A run is pinned to the version of its attachment,
-- which holds all of this as it was.
--
--   WA021   a persona or a version of an agent does not exist, or is in use

create table agent.persona (
    tenant              text collate "C" not null default agent.current_tenant() references agent.tenant,
    name                text not null check (name <> ''),
    version             integer not null default 1,
    system_prompt       text not null default '',
    traits              jsonb not null default '{}' check (jsonb_typeof(traits) = 'object'),
    rules               text[] not null default '{}' check (array_position(rules, null) is null),
    model               text,
    parameters          jsonb not null default '{}' check (jsonb_typeof(parameters) = 'object'),
    max_steps           integer check (max_steps > 0),
    max_tokens          bigint check (max_tokens > 0),
    max_cost            numeric check (max_cost > 0),
    max_seconds         integer check (max_seconds > 0),
    max_output_tokens   integer check (max_output_tokens > 0),
    requests_per_minute integer check (requests_per_minute between 1 and 6000),
    updated_at          timestamptz not null default now(),
    primary key (tenant, name),
    constraint holds_no_key check (
        agent_internal.no_key(system_prompt, 'system_prompt') and agent_internal.no_key(traits::text, 'traits')
        and agent_internal.no_key(rules::text, 'rules') and agent_internal.no_key(parameters::text, 'parameters'))
);

create table agent.persona_version (
    tenant     text collate "C" not null,
    persona    text not null,
    version    integer not null,
    definition jsonb not null,
    made_by    name not null default agent.current_principal(),
    made_at    timestamptz not null default now(),
    primary key (tenant, persona, version),
    foreign key (tenant, persona) references agent.persona on delete cascade
);
