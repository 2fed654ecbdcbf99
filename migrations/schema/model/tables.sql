create table agent.model (
    name               text not null check (name <> ''),
    provider           text not null,
    model_id           text not null,
    base_url           text,
    credential         text,
    tool_mode          text not null default 'native' check (tool_mode in ('native', 'schema')),
    context_window     integer not null default 128000 check (context_window > 0),
    max_output_tokens  integer not null default 4096 check (max_output_tokens > 0),
    timeout_seconds    integer not null default 120 check (timeout_seconds > 0),
    input_price        numeric check (input_price >= 0),
    cached_input_price numeric check (cached_input_price >= 0),
    cache_write_price  numeric check (cache_write_price >= 0),
    output_price       numeric check (output_price >= 0),
    parameters         jsonb not null default '{}' check (jsonb_typeof(parameters) = 'object'),
    enabled            boolean not null default true,
    reasons            boolean not null default false,
    cache_min_tokens   integer check (cache_min_tokens > 0),
    dimensions         integer check (dimensions between 1 and 16000),
    price_bands        jsonb not null default '[]'
        constraint price_bands_are_prices check (
            jsonb_typeof(price_bands) = 'array'
            and not jsonb_path_exists(price_bands, '$[*] ? (!(@.above >= 0 && @.input_price >= 0 && @.output_price >= 0))')),
    flex_factor        numeric check (flex_factor > 0 and flex_factor <= 1),
    batch_factor       numeric check (batch_factor > 0 and batch_factor <= 1),
    tenant             text collate "C" default case when not agent_internal.all_tenants() then agent.current_tenant() end references agent.tenant,
    scope              text collate "C" generated always as (coalesce(tenant, '')) stored,
    primary key (scope, name),
    constraint provider_has_tiers check (flex_factor is null or provider not in ('anthropic', 'embedded')),
    constraint provider_has_batches check (batch_factor is null or provider not in ('embedded', 'scripted')),
    constraint provider_has_embeddings check (dimensions is null or provider <> 'anthropic'),
    constraint holds_no_key check (
    agent_internal.no_key(base_url, 'base_url') and agent_internal.no_key(credential, 'credential')
    and agent_internal.no_key(parameters::text, 'parameters'))
);
