-- The built-in models; rows can be added, changed and removed.  docs/models.md has the sources of the prices.
--
-- Prices are US dollars per million tokens as published by the providers; NULL if one price would be wrong or is
-- not certain: then the cost is recorded as unknown.  `reasons`: unless a parameter prevents it, as walagent calls it.
insert into agent.model
    (name, provider, model_id, base_url, credential, tool_mode, context_window, max_output_tokens,
     input_price, cached_input_price, cache_write_price, output_price, reasons, cache_min_tokens)
values
    -- Anthropic.  Cache writes are those that last five minutes.
    ('claude-fable-5-2', 'anthropic', 'claude-fable-5-2', null, null, 'native', 200000, 64000, null, null, null, null, true, null),
    ('claude-fable-5-1', 'anthropic', 'claude-fable-5-1', null, null, 'native', 1000000, 128000, 10, 0.25, 12.5, 50, true, null),
    ('claude-fable-5', 'anthropic', 'claude-fable-5', null, null, 'native', 1000000, 128000, 10, 1, 12.5, 50, true, 512),
    ('claude-opus-5-5', 'anthropic', 'claude-opus-5-5', null, null, 'native', 1000000, 128000, 4, 0.2, 5, 20, true, null),
    ('claude-opus-5', 'anthropic', 'claude-opus-5', null, null, 'native', 1000000, 128000, 5, 0.5, 6.25, 25, true, 512),
    ('claude-opus-4-8', 'anthropic', 'claude-opus-4-8', null, null, 'native', 1000000, 128000, 5, 0.5, 6.25, 25, false, 1024),
    ('claude-opus-4-7', 'anthropic', 'claude-opus-4-7', null, null, 'native', 1000000, 128000, 5, 0.5, 6.25, 25, false, 2048),
    ('claude-opus-4-6', 'anthropic', 'claude-opus-4-6', null, null, 'native', 1000000, 128000, 5, 0.5, 6.25, 25, false, 4096),
    ('claude-opus-4-5', 'anthropic', 'claude-opus-4-5', null, null, 'native', 200000, 64000, 5, 0.5, 6.25, 25, false, 4096),
    ('claude-sonnet-5-5', 'anthropic', 'claude-sonnet-5-5', null, null, 'native', 1000000, 128000, 2, 0.1, 2.5, 10, true, null),
    ('claude-sonnet-5', 'anthropic', 'claude-sonnet-5', null, null, 'native', 1000000, 128000, 2, 0.2, 2.5, 10, true, 1024),
    ('claude-sonnet-4-6', 'anthropic', 'claude-sonnet-4-6', null, null, 'native', 1000000, 64000, 3, 0.3, 3.75, 15, false, 1024),
    ('claude-sonnet-4-5', 'anthropic', 'claude-sonnet-4-5', null, null, 'native', 200000, 64000, 3, 0.3, 3.75, 15, false, 1024),
    ('claude-haiku-5-5', 'anthropic', 'claude-haiku-5-5', null, null, 'native', 1000000, 128000, 0.1, 0.01, 0.125, 0.5, true, null),
    ('claude-haiku-4-5', 'anthropic', 'claude-haiku-4-5', null, null, 'native', 200000, 64000, 1, 0.1, 1.25, 5, false, 4096),
    ('claude-haiku-4-5-20251001', 'anthropic', 'claude-haiku-4-5-20251001', null, null, 'native', 200000, 64000, 1, 0.1, 1.25, 5, false, 4096),
    ('claude-3-5-sonnet-20241022', 'anthropic', 'claude-3-5-sonnet-20241022', null, null, 'native', 200000, 8192, 3, 0.3, 3.75, 15, false, 1024),
    ('claude-3-5-haiku-20241022', 'anthropic', 'claude-3-5-haiku-20241022', null, null, 'native', 200000, 8192, 0.8, 0.08, 1, 4, false, 2048),
    -- OpenAI.
    -- The gpt-6 models that cannot stop reasoning take no tools in Chat Completions: schema.
    ('gpt-6.2-astra', 'openai', 'gpt-6.2-astra', null, null, 'schema', 1050000, 128000, 8, 0.4, 10, 40, true, 1024),
    ('gpt-6.2-sol', 'openai', 'gpt-6.2-sol', null, null, 'schema', 1050000, 128000, 2, 0.1, 2.5, 10, true, 1024),
    ('gpt-6.1-sol', 'openai', 'gpt-6.1-sol', null, null, 'schema', 1050000, 128000, 2, 0.1, 2.5, 10, true, 1024),
    ('gpt-6.1-terra', 'openai', 'gpt-6.1-terra', null, null, 'schema', 1050000, 128000, 1, 0.05, 1.25, 5, true, 1024),
    ('gpt-6-astra', 'openai', 'gpt-6-astra', null, null, 'schema', 1050000, 128000, 10, 1, 12.5, 50, true, 1024),
    ('gpt-6-sol', 'openai', 'gpt-6-sol', null, null, 'native', 1050000, 128000, 2, 0.2, 2.5, 10, false, 1024),
    ('gpt-6-luna', 'openai', 'gpt-6-luna', null, null, 'native', 1050000, 128000, 0.1, 0.01, 0.125, 0.5, false, 1024),
    ('gpt-5.6-sol', 'openai', 'gpt-5.6-sol', null, null, 'native', 1050000, 128000, 5, 0.5, 6.25, 30, false, 1024),
    ('gpt-5.6-terra', 'openai', 'gpt-5.6-terra', null, null, 'native', 1050000, 128000, 2, 0.2, 2.5, 12, false, 1024),
    ('gpt-5.6-luna', 'openai', 'gpt-5.6-luna', null, null, 'native', 1050000, 128000, 0.2, 0.02, 0.25, 1.2, false, 1024),
    ('gpt-5.5', 'openai', 'gpt-5.5', null, null, 'native', 1050000, 128000, 5, 0.5, 5, 30, true, 1024),
    ('gpt-5.4', 'openai', 'gpt-5.4', null, null, 'native', 1050000, 128000, 2.5, 0.25, 2.5, 15, false, 1024),
    ('gpt-5.4-mini', 'openai', 'gpt-5.4-mini', null, null, 'native', 400000, 128000, 0.75, 0.075, 0.75, 4.5, false, 1024),
    ('gpt-5.4-nano', 'openai', 'gpt-5.4-nano', null, null, 'native', 400000, 128000, 0.2, 0.02, 0.2, 1.25, false, 1024),
    ('gpt-5.2', 'openai', 'gpt-5.2', null, null, 'native', 400000, 128000, 1.75, 0.175, 1.75, 14, false, 1024),
    ('gpt-5.1', 'openai', 'gpt-5.1', null, null, 'native', 400000, 128000, 1.25, 0.125, 1.25, 10, false, 1024),
    ('gpt-5', 'openai', 'gpt-5', null, null, 'native', 400000, 128000, 1.25, 0.125, 1.25, 10, true, 1024),
    ('gpt-5-mini', 'openai', 'gpt-5-mini', null, null, 'native', 400000, 128000, 0.25, 0.025, 0.25, 2, true, 1024),
    ('gpt-5-nano', 'openai', 'gpt-5-nano', null, null, 'native', 400000, 128000, 0.05, 0.005, 0.05, 0.4, true, 1024),
    ('gpt-4.1', 'openai', 'gpt-4.1', null, null, 'native', 1047576, 32768, 2, 0.5, 2, 8, false, 1024),
    ('gpt-4.1-mini', 'openai', 'gpt-4.1-mini', null, null, 'native', 1047576, 32768, 0.4, 0.1, 0.4, 1.6, false, 1024),
    ('gpt-4.1-nano', 'openai', 'gpt-4.1-nano', null, null, 'native', 1047576, 32768, 0.1, 0.025, 0.1, 0.4, false, 1024),
    ('gpt-4o', 'openai', 'gpt-4o', null, null, 'native', 128000, 16384, 2.5, 1.25, 2.5, 10, false, 1024),
    ('gpt-4o-mini', 'openai', 'gpt-4o-mini', null, null, 'native', 128000, 16384, 0.15, 0.075, 0.15, 0.6, false, 1024),
    ('o4-mini', 'openai', 'o4-mini', null, null, 'native', 200000, 100000, 1.1, 0.275, 1.1, 4.4, true, 1024),
    ('o3', 'openai', 'o3', null, null, 'native', 200000, 100000, 2, 0.5, 2, 8, true, 1024),
    ('o3-mini', 'openai', 'o3-mini', null, null, 'native', 200000, 100000, 1.1, 0.55, 1.1, 4.4, true, 1024),
    ('o1', 'openai', 'o1', null, null, 'native', 200000, 100000, 15, 7.5, 15, 60, true, 1024),
    -- Google, through its OpenAI-compatible endpoint.
    ('gemini-2.5-flash', 'openai', 'gemini-2.5-flash', 'https://generativelanguage.googleapis.com/v1beta/openai', 'GEMINI_API_KEY', 'native', 1048576, 65536, 0.3, null, 0.3, 2.5, true, null),
    ('gemini-2.0-flash', 'openai', 'gemini-2.0-flash', 'https://generativelanguage.googleapis.com/v1beta/openai', 'GEMINI_API_KEY', 'native', 1048576, 8192, 0.1, 0.025, 0.1, 0.4, false, null),
    -- Ollama on this machine, without cost.
    ('llama3.3:70b', 'openai', 'llama3.3:70b', 'http://localhost:11434/v1', null, 'native', 131072, 8192, 0, 0, 0, 0, false, null),
    ('qwen2.5:32b', 'openai', 'qwen2.5:32b', 'http://localhost:11434/v1', null, 'native', 32768, 8192, 0, 0, 0, 0, false, null),
    ('deepseek-r1:32b', 'openai', 'deepseek-r1:32b', 'http://localhost:11434/v1', null, 'schema', 131072, 8192, 0, 0, 0, 0, true, null),
    -- Selects a tool by embedding similarity, on this machine, without key or network; not a language model.
    ('embedded/e5', 'embedded', 'e5', null, null, 'native', 512, 512, 0, 0, 0, 0, false, null);

update agent.model set dimensions = 384 where name = 'embedded/e5';

-- Above these many tokens of input, tokens cost so many times as much, for the whole request.
update agent.model m
   set price_bands = jsonb_build_array(jsonb_build_object(
           'above', b.above, 'input_price', m.input_price * b.times_input, 'cached_input_price', m.cached_input_price * b.times_input,
           'cache_write_price', m.cache_write_price * b.times_input, 'output_price', m.output_price * b.times_output))
  from (values (272000, 2, 1.5, '{gpt-6-sol,gpt-6-luna,gpt-5.6-sol,gpt-5.6-luna,gpt-5.4-mini,gpt-5.6-terra,gpt-5.4,gpt-5.4-nano,gpt-6.2-astra,gpt-6.2-sol,gpt-6.1-sol,gpt-6.1-terra,gpt-6-astra,gpt-5.5}'::text[]),
               (100000, 5, 5, '{claude-haiku-5-5}')) as b (above, times_input, times_output, models)
 where m.name = any (b.models);

-- Models that OpenAI serves in the tier flex, at half of all prices.
update agent.model
   set flex_factor = 0.5
 where name in ('gpt-6-astra', 'gpt-6-sol', 'gpt-6-luna', 'gpt-5.6-sol', 'gpt-5.6-terra', 'gpt-5.6-luna', 'gpt-5.5', 'gpt-5.4',
                'gpt-5.4-mini', 'gpt-5.4-nano', 'gpt-5.2', 'gpt-5.1', 'gpt-5', 'gpt-5-mini', 'gpt-5-nano', 'o4-mini', 'o3');

-- Models whose providers take batches, at half of all prices.
update agent.model set batch_factor = 0.5 where provider = 'anthropic' or provider = 'openai' and base_url is null;
