-- What agents and attachments consist of, and agent.attach() with named arguments.
--
-- Generated from src/walagent/config/entries.py by `make docs`.

-- Args: of: agent or attachment.  fallback: the value of a key that is not given.  choices: the
-- words that it or its elements can be.  expected: what it must be, in words.
create or replace function agent_internal.attach_keys()
    returns table (key text, of text, "column" name, fallback jsonb, choices text[],
                   may_be_empty boolean, expected text)
    language sql
    immutable
    set search_path = pg_catalog, pg_temp
as $$
    values
        ('model', 'agent', 'model', null::jsonb, null::text[], false, 'must be a string that is not empty'),
        ('persona', 'agent', 'persona', null::jsonb, null::text[], false, 'must be a string that is not empty'),
        ('persona_version', 'agent', 'persona_version', null::jsonb, null::text[], true, 'must be an integer greater than 0'),
        ('system_prompt', 'agent', 'system_prompt', '""'::jsonb, null::text[], true, 'must be a string'),
        ('tools', 'agent', 'tools', '[]'::jsonb, null::text[], true, 'must be a list'),
        ('tool_choice', 'agent', 'tool_choice', '"auto"'::jsonb, null::text[], false, 'must be a string that is not empty'),
        ('examples', 'agent', 'examples', '[]'::jsonb, null::text[], true, 'must be a list'),
        ('parameters', 'agent', 'parameters', '{}'::jsonb, null::text[], true, 'must be a mapping'),
        ('cascade', 'agent', 'cascade', '[]'::jsonb, null::text[], true, 'must be a list'),
        ('cascade_control', 'agent', 'cascade_control', '0.02'::jsonb, null::text[], true, 'must be a number from 0 to 1'),
        ('fallback', 'agent', 'fallback', null::jsonb, null::text[], false, 'must be a string that is not empty'),
        ('tier', 'agent', 'tier', '"standard"'::jsonb, '{standard,flex,batch}'::text[], true, 'must be standard, flex or batch'),
        ('reuse', 'agent', 'reuse', null::jsonb, null::text[], true, 'must be a time such as 30s, 2 minutes or 7 days'),
        ('rows_per_request', 'agent', 'rows_per_request', null::jsonb, null::text[], true, 'must be an integer from 2 to 100'),
        ('max_steps', 'agent', 'max_steps', '20'::jsonb, null::text[], true, 'must be an integer greater than 0'),
        ('max_tokens', 'agent', 'max_tokens', null::jsonb, null::text[], true, 'must be an integer greater than 0'),
        ('max_cost', 'agent', 'max_cost', null::jsonb, null::text[], true, 'must be a number greater than 0'),
        ('max_seconds', 'agent', 'max_seconds', '600'::jsonb, null::text[], true, 'must be an integer greater than 0'),
        ('max_attempts', 'agent', 'max_attempts', '5'::jsonb, null::text[], true, 'must be an integer greater than 0'),
        ('max_output_tokens', 'agent', 'max_output_tokens', null::jsonb, null::text[], true, 'must be an integer greater than 0'),
        ('finish', 'agent', 'finish', null::jsonb, '{answer,after_call}'::text[], true, 'must be answer or after_call'),
        ('requests_per_minute', 'agent', 'requests_per_minute', null::jsonb, null::text[], true, 'must be an integer from 1 to 6000'),
        ('thinking_visible', 'agent', 'thinking_visible', 'true'::jsonb, null::text[], true, 'must be true or false'),
        ('pause_before_tool', 'agent', 'pause_before_tool', 'false'::jsonb, null::text[], true, 'must be true or false'),
        ('pause_after_tool', 'agent', 'pause_after_tool', 'false'::jsonb, null::text[], true, 'must be true or false'),
        ('approve_from', 'agent', 'approve_from', null::jsonb, '{low,medium,high,critical}'::text[], true, 'must be low, medium, high or critical'),
        ('four_eyes', 'agent', 'four_eyes', null::jsonb, null::text[], true, 'must be true or false'),
        ('name', 'attachment', 'name', null::jsonb, null::text[], false, 'must be a string that is not empty'),
        ('on', 'attachment', 'ops', '["insert"]'::jsonb, '{insert,update,delete,truncate}'::text[], true, 'must be a list of insert, update, delete or truncate'),
        ('when', 'attachment', 'condition', null::jsonb, null::text[], false, 'must be a string that is not empty'),
        ('columns', 'attachment', 'columns', null::jsonb, null::text[], true, 'must be a list'),
        ('writes', 'attachment', 'writes', '[]'::jsonb, null::text[], true, 'must be a list'),
        ('bind', 'attachment', 'bind', '{}'::jsonb, null::text[], true, 'must be a mapping'),
        ('approve', 'attachment', 'approve', '[]'::jsonb, null::text[], true, 'must be a list'),
        ('lets_out', 'attachment', 'lets_out', '[]'::jsonb, null::text[], true, 'must be a list'),
        ('run_as', 'attachment', 'run_as', null::jsonb, null::text[], false, 'must be a string that is not empty'),
        ('query_as', 'attachment', 'query_as', null::jsonb, null::text[], false, 'must be a string that is not empty'),
        ('ordering_key', 'attachment', 'ordering_key', null::jsonb, null::text[], true, 'must be a list'),
        ('debounce', 'attachment', 'debounce', null::jsonb, null::text[], true, 'must be a time such as 30s, 2 minutes or 7 days'),
        ('cap', 'attachment', 'cap', null::jsonb, null::text[], true, 'must be an integer greater than 0'),
        ('tenant', 'attachment', 'tenant_column', null::jsonb, null::text[], false, 'must be a string that is not empty'),
        ('backfill', 'attachment', 'backfill', 'false'::jsonb, null::text[], true, 'must be true or false'),
        ('server_filter', 'attachment', 'server_filter', 'false'::jsonb, null::text[], true, 'must be true or false'),
        ('corrections', 'attachment', 'corrections', 'false'::jsonb, null::text[], true, 'must be true or false'),
        ('only_unchanged', 'attachment', 'only_unchanged', 'false'::jsonb, null::text[], true, 'must be true or false'),
        ('score_share', 'attachment', 'score_share', '0.0'::jsonb, null::text[], true, 'must be a number from 0 to 1'),
        ('embeds', 'attachment', 'embeds', 'false'::jsonb, null::text[], true, 'must be true or false'),
        ('max_depth', 'attachment', 'max_depth', '3'::jsonb, null::text[], true, 'must be an integer from 0 to 100'),
        ('priority', 'attachment', 'priority', '0'::jsonb, null::text[], true, 'must be an integer from -1000 to 1000'),
        ('approval_ttl', 'attachment', 'approval_ttl', '"P7D"'::jsonb, null::text[], true, 'must be a time such as 30s, 2 minutes or 7 days'),
        ('paused', 'attachment', 'paused', null::jsonb, null::text[], true, 'must be true or false'),
        ('agent', 'attachment', 'agent', null::jsonb, null::text[], false, 'must be a string that is not empty')
$$;

-- Attach an agent, with named arguments.  Creates or changes the agent that has the name of the
-- attachment.
--
-- Args: agent: an agent that exists, instead of a new one.
-- tenant: a column of the table whose text names the tenant of each row; NULL: all runs are of the
--   caller's.
-- replace: change an attachment of this name and table that was made in SQL, instead of raising
--   WA013.
create or replace function agent.attach(
    target regclass,
    model text default null,
    system_prompt text default '',
    tools text[] default '{}',
    name text default null,
    persona text default null,
    persona_version integer default null,
    tool_choice text default 'auto',
    examples jsonb default '[]',
    parameters jsonb default '{}',
    cascade text[] default '{}',
    cascade_control numeric default 0.02,
    fallback text default null,
    tier text default 'standard',
    reuse interval default null,
    rows_per_request integer default null,
    max_steps integer default 20,
    max_tokens bigint default null,
    max_cost numeric default null,
    max_seconds integer default 600,
    max_attempts integer default 5,
    max_output_tokens integer default null,
    finish text default null,
    requests_per_minute integer default null,
    thinking_visible boolean default true,
    pause_before_tool boolean default false,
    pause_after_tool boolean default false,
    approve_from text default null,
    four_eyes boolean default null,
    ops text[] default '{insert}',
    condition text default null,
    columns text[] default null,
    writes text[] default '{}',
    bind jsonb default '{}',
    approve text[] default '{}',
    lets_out text[] default '{}',
    run_as name default current_user,
    query_as name default null,
    ordering_key text[] default null,
    debounce interval default null,
    cap integer default null,
    tenant text default null,
    backfill boolean default false,
    server_filter boolean default false,
    corrections boolean default false,
    only_unchanged boolean default false,
    score_share numeric default 0.0,
    embeds boolean default false,
    max_depth integer default 3,
    priority integer default 0,
    approval_ttl interval default 'P7D',
    paused boolean default null,
    agent text default null,
    replace boolean default false
)
    returns bigint
    language sql
begin atomic
    select agent_internal.attach(target, jsonb_build_object(
        'model', model, 'system_prompt', system_prompt, 'tools', tools, 'name', name, 'persona', persona,
        'persona_version', persona_version, 'tool_choice', tool_choice, 'examples', examples,
        'parameters', parameters, 'cascade', cascade, 'cascade_control', cascade_control,
        'fallback', fallback, 'tier', tier, 'reuse', reuse, 'rows_per_request', rows_per_request,
        'max_steps', max_steps, 'max_tokens', max_tokens, 'max_cost', max_cost, 'max_seconds', max_seconds,
        'max_attempts', max_attempts, 'max_output_tokens', max_output_tokens, 'finish', finish,
        'requests_per_minute', requests_per_minute, 'thinking_visible', thinking_visible,
        'pause_before_tool', pause_before_tool, 'pause_after_tool', pause_after_tool,
        'approve_from', approve_from, 'four_eyes', four_eyes, 'on', ops, 'when', condition)
        || jsonb_build_object(
        'columns', columns, 'writes', writes, 'bind', bind, 'approve', approve, 'lets_out', lets_out,
        'run_as', run_as, 'query_as', query_as, 'ordering_key', ordering_key, 'debounce', debounce,
        'cap', cap, 'tenant', tenant, 'backfill', backfill, 'server_filter', server_filter,
        'corrections', corrections, 'only_unchanged', only_unchanged, 'score_share', score_share,
        'embeds', embeds, 'max_depth', max_depth, 'priority', priority, 'approval_ttl', approval_ttl,
        'paused', paused, 'agent', agent, 'replace', replace), agent_internal.schemas_of_caller());
end;
comment on function agent.attach(regclass, text, text, text[], text, text, integer, text, jsonb, jsonb, text[], numeric, text, text, interval, integer, integer, bigint, numeric, integer, integer, integer, text, integer, boolean, boolean, boolean, text, boolean, text[], text, text[], text[], jsonb, text[], text[], name, name, text[], interval, integer, text, boolean, boolean, boolean, boolean, numeric, boolean, integer, integer, interval, boolean, text, boolean) is 'Attach an agent to a table, with named arguments';
