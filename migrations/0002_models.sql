-- Models, and the rows that every installation starts with.

create table agent.model (
    name               text primary key check (name <> ''),
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
    enabled            boolean not null default true
);
comment on table agent.model is 'Models that agents and questions can use';
comment on column agent.model.provider is 'Name of a provider: built in, or an entry point of the group walagent.models';
comment on column agent.model.credential is 'Name of the environment variable or systemd credential that has the key; never the key';
comment on column agent.model.tool_mode is 'native: tool calls of the endpoint; schema: one JSON schema of all tools';
comment on column agent.model.timeout_seconds is 'Maximum duration of one call, in seconds; after it, the call has failed';
comment on column agent.model.input_price is 'US dollars per million tokens; NULL: unknown';
comment on column agent.model.name is 'Name that agents and attachments use';
comment on column agent.model.model_id is 'Name of the model at the provider';
comment on column agent.model.base_url is 'URL of the server; NULL: the provider''s own';
comment on column agent.model.context_window is 'Size of the context window, in tokens';
comment on column agent.model.max_output_tokens is 'Maximum output tokens of one call';
comment on column agent.model.cached_input_price is 'US dollars per million input tokens read from a cache; NULL: unknown';
comment on column agent.model.cache_write_price is 'US dollars per million input tokens written to a cache; NULL: unknown';
comment on column agent.model.output_price is 'US dollars per million output tokens; NULL: unknown';
comment on column agent.model.parameters is 'Sent with every call';
comment on column agent.model.enabled is 'Whether it can be used';

-- The built-in models; rows can be added, changed and removed.
--
-- Prices are US dollars per million tokens as published by the providers; NULL if one price would be wrong or is
-- not certain: then the cost is recorded as unknown.
insert into agent.model
    (name, provider, model_id, base_url, credential, tool_mode, context_window, max_output_tokens,
     input_price, cached_input_price, cache_write_price, output_price)
values
    -- Anthropic.  Cache writes are those that last five minutes.
    ('claude-fable-5-2', 'anthropic', 'claude-fable-5-2', null, null, 'native', 200000, 64000, null, null, null, null),
    ('claude-fable-5-1', 'anthropic', 'claude-fable-5-1', null, null, 'native', 1000000, 128000, 10, 0.25, 12.5, 50),
    ('claude-fable-5', 'anthropic', 'claude-fable-5', null, null, 'native', 1000000, 128000, 10, 1, 12.5, 50),
    ('claude-opus-5-5', 'anthropic', 'claude-opus-5-5', null, null, 'native', 1000000, 128000, 4, 0.2, 5, 20),
    ('claude-opus-5', 'anthropic', 'claude-opus-5', null, null, 'native', 1000000, 128000, 5, 0.5, 6.25, 25),
    ('claude-opus-4-8', 'anthropic', 'claude-opus-4-8', null, null, 'native', 1000000, 128000, 5, 0.5, 6.25, 25),
    ('claude-opus-4-7', 'anthropic', 'claude-opus-4-7', null, null, 'native', 1000000, 128000, 5, 0.5, 6.25, 25),
    ('claude-opus-4-6', 'anthropic', 'claude-opus-4-6', null, null, 'native', 1000000, 128000, 5, 0.5, 6.25, 25),
    ('claude-opus-4-5', 'anthropic', 'claude-opus-4-5', null, null, 'native', 200000, 64000, 5, 0.5, 6.25, 25),
    ('claude-sonnet-5-5', 'anthropic', 'claude-sonnet-5-5', null, null, 'native', 1000000, 128000, 2, null, 2.5, 10),
    ('claude-sonnet-5', 'anthropic', 'claude-sonnet-5', null, null, 'native', 1000000, 128000, 2, 0.2, 2.5, 10),
    ('claude-sonnet-4-6', 'anthropic', 'claude-sonnet-4-6', null, null, 'native', 1000000, 64000, 3, 0.3, 3.75, 15),
    ('claude-sonnet-4-5', 'anthropic', 'claude-sonnet-4-5', null, null, 'native', 200000, 64000, 3, 0.3, 3.75, 15),
    ('claude-haiku-5-5', 'anthropic', 'claude-haiku-5-5', null, null, 'native', 1000000, 128000, null, null, null, null),
    ('claude-haiku-4-5', 'anthropic', 'claude-haiku-4-5', null, null, 'native', 200000, 64000, 1, 0.1, 1.25, 5),
    ('claude-haiku-4-5-20251001', 'anthropic', 'claude-haiku-4-5-20251001', null, null, 'native', 200000, 64000, 1, 0.1, 1.25, 5),
    ('claude-3-5-sonnet-20241022', 'anthropic', 'claude-3-5-sonnet-20241022', null, null, 'native', 200000, 8192, 3, 0.3, 3.75, 15),
    ('claude-3-5-haiku-20241022', 'anthropic', 'claude-3-5-haiku-20241022', null, null, 'native', 200000, 8192, 0.8, 0.08, 1, 4),
    -- OpenAI.  If a token costs more in a long prompt, one price would be wrong: NULL.
    -- The gpt-6 models that cannot stop reasoning take no tools in Chat Completions: schema.
    ('gpt-6.2-astra', 'openai', 'gpt-6.2-astra', null, null, 'schema', 1050000, 128000, null, null, null, null),
    ('gpt-6.2-sol', 'openai', 'gpt-6.2-sol', null, null, 'schema', 1050000, 128000, null, null, null, null),
    ('gpt-6.1-sol', 'openai', 'gpt-6.1-sol', null, null, 'schema', 1050000, 128000, null, null, null, null),
    ('gpt-6.1-terra', 'openai', 'gpt-6.1-terra', null, null, 'schema', 1050000, 128000, null, null, null, null),
    ('gpt-6-astra', 'openai', 'gpt-6-astra', null, null, 'schema', 1050000, 128000, null, null, null, null),
    ('gpt-6-sol', 'openai', 'gpt-6-sol', null, null, 'native', 1050000, 128000, null, null, null, null),
    ('gpt-6-luna', 'openai', 'gpt-6-luna', null, null, 'native', 1050000, 128000, null, null, null, null),
    ('gpt-5.6-sol', 'openai', 'gpt-5.6-sol', null, null, 'native', 1050000, 128000, null, null, null, null),
    ('gpt-5.6-terra', 'openai', 'gpt-5.6-terra', null, null, 'native', 1050000, 128000, null, null, null, null),
    ('gpt-5.6-luna', 'openai', 'gpt-5.6-luna', null, null, 'native', 1050000, 128000, null, null, null, null),
    ('gpt-5.5', 'openai', 'gpt-5.5', null, null, 'native', 1050000, 128000, null, null, null, null),
    ('gpt-5.4', 'openai', 'gpt-5.4', null, null, 'native', 1050000, 128000, null, null, null, null),
    ('gpt-5.4-mini', 'openai', 'gpt-5.4-mini', null, null, 'native', 400000, 128000, null, null, null, null),
    ('gpt-5.4-nano', 'openai', 'gpt-5.4-nano', null, null, 'native', 400000, 128000, null, null, null, null),
    ('gpt-5.2', 'openai', 'gpt-5.2', null, null, 'native', 400000, 128000, 1.75, 0.175, 1.75, 14),
    ('gpt-5.1', 'openai', 'gpt-5.1', null, null, 'native', 400000, 128000, 1.25, 0.125, 1.25, 10),
    ('gpt-5', 'openai', 'gpt-5', null, null, 'native', 400000, 128000, 1.25, 0.125, 1.25, 10),
    ('gpt-5-mini', 'openai', 'gpt-5-mini', null, null, 'native', 400000, 128000, 0.25, 0.025, 0.25, 2),
    ('gpt-5-nano', 'openai', 'gpt-5-nano', null, null, 'native', 400000, 128000, 0.05, 0.005, 0.05, 0.4),
    ('gpt-4.1', 'openai', 'gpt-4.1', null, null, 'native', 1047576, 32768, 2, 0.5, 2, 8),
    ('gpt-4.1-mini', 'openai', 'gpt-4.1-mini', null, null, 'native', 1047576, 32768, 0.4, 0.1, 0.4, 1.6),
    ('gpt-4.1-nano', 'openai', 'gpt-4.1-nano', null, null, 'native', 1047576, 32768, 0.1, 0.025, 0.1, 0.4),
    ('gpt-4o', 'openai', 'gpt-4o', null, null, 'native', 128000, 16384, 2.5, 1.25, 2.5, 10),
    ('gpt-4o-mini', 'openai', 'gpt-4o-mini', null, null, 'native', 128000, 16384, 0.15, 0.075, 0.15, 0.6),
    ('o4-mini', 'openai', 'o4-mini', null, null, 'native', 200000, 100000, 1.1, 0.275, 1.1, 4.4),
    ('o3', 'openai', 'o3', null, null, 'native', 200000, 100000, 2, 0.5, 2, 8),
    ('o3-mini', 'openai', 'o3-mini', null, null, 'native', 200000, 100000, 1.1, 0.55, 1.1, 4.4),
    ('o1', 'openai', 'o1', null, null, 'native', 200000, 100000, 15, 7.5, 15, 60),
    -- Google, through its OpenAI-compatible endpoint.
    ('gemini-2.5-flash', 'openai', 'gemini-2.5-flash', 'https://generativelanguage.googleapis.com/v1beta/openai', 'GEMINI_API_KEY', 'native', 1048576, 65536, 0.3, null, 0.3, 2.5),
    ('gemini-2.0-flash', 'openai', 'gemini-2.0-flash', 'https://generativelanguage.googleapis.com/v1beta/openai', 'GEMINI_API_KEY', 'native', 1048576, 8192, 0.1, 0.025, 0.1, 0.4),
    -- Ollama on this machine, without cost.
    ('llama3.3:70b', 'openai', 'llama3.3:70b', 'http://localhost:11434/v1', null, 'native', 131072, 8192, 0, 0, 0, 0),
    ('qwen2.5:32b', 'openai', 'qwen2.5:32b', 'http://localhost:11434/v1', null, 'native', 32768, 8192, 0, 0, 0, 0),
    ('deepseek-r1:32b', 'openai', 'deepseek-r1:32b', 'http://localhost:11434/v1', null, 'schema', 131072, 8192, 0, 0, 0, 0);

-- Selects a tool by embedding similarity, on this machine, without key or network; not a language model.
insert into agent.model
    (name, provider, model_id, context_window, max_output_tokens, input_price, cached_input_price, cache_write_price, output_price)
values
    ('embedded/e5', 'embedded', 'e5', 512, 512, 0, 0, 0, 0);
