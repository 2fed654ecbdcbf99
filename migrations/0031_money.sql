-- Money: prices by prompt length, limits that fit, runs that end after their calls, and tools over HTTP.

alter table agent.model
    add reasons boolean not null default false,
    add cache_min_tokens integer check (cache_min_tokens > 0),
    add price_bands jsonb not null default '[]'
        constraint price_bands_are_prices check (
            jsonb_typeof(price_bands) = 'array'
            and not jsonb_path_exists(price_bands, '$[*] ? (!(@.above >= 0 && @.input_price >= 0 && @.output_price >= 0))'));
comment on column agent.model.reasons is 'Whether it reasons before it answers, so that its default output limit is higher';
comment on column agent.model.cache_min_tokens is 'Number of tokens from which the provider caches the start of a prompt; NULL: unknown';
comment on column agent.model.price_bands is 'Prices of long prompts: [{"above": tokens of input, "input_price": ..., "cached_input_price": ..., "cache_write_price": ..., "output_price": ...}]';

alter table agent.agent
    add finish text check (finish in ('answer', 'after_call'));
comment on column agent.agent.finish is 'When a run ends: answer, with an answer in words; after_call, when all calls of a reply have succeeded. NULL: after_call if tool_choice names a tool or update_row is all there is, otherwise answer';
comment on column agent.agent.max_output_tokens is 'Maximum output tokens of one call; NULL: what the tools need';

alter table agent.tool
    drop constraint tool_kind_check,
    add constraint tool_kind_check check (kind in ('sql', 'python', 'mcp', 'http', 'builtin')),
    add http jsonb check (jsonb_typeof(http) = 'object'),
    add check ((kind = 'http') = (http is not null));
comment on column agent.tool.http is 'http: {"method", "headers", "body", "idempotency_header", "max_bytes"}; target has the URL. Templates: {argument}, {secret:NAME}, {idempotency_key}, {run_id}';
comment on column agent.tool.kind is 'sql, python, mcp, http or builtin';
comment on column agent.tool.target is 'sql: a function; python: module:function; mcp: server.tool; http: a URL; builtin: its name';

-- Reject limits within which no call is possible: a run would fail before its first.
--
-- The same bound as in walagent.agent.models.cost, without the row: one token per byte of the request, and 256 tokens of
-- output.
create function agent_internal.check_model(_agent agent.agent, _tools jsonb)
    returns void
    language plpgsql
    stable
as $$
declare
    _model agent.model;
    _bytes bigint;
    _least numeric;
begin
    _model := agent_internal.model_of(_agent.tenant, _agent.model);
    if _agent.max_cost is null or _model.name is null then
        return;
    elsif _model.input_price is null or _model.output_price is null then
        raise exception 'max_cost requires a model with prices, and model "%" has none', _model.name
            using errcode = 'WA014',
                  hint = 'Set input_price and output_price of the model, or limit the run by max_tokens.';
    end if;
    select 1500 + octet_length(_agent.system_prompt)
           + coalesce(sum(octet_length(coalesce(t ->> 'description', ''))
                          + octet_length(replace(replace((t -> 'input_schema')::text, ': ', ':'), ', ', ','))), 0) into _bytes
      from jsonb_array_elements(_tools) t;
    _least := (least(_bytes, _model.context_window)
                   * greatest(_model.input_price, _model.cached_input_price, _model.cache_write_price)
               + least(256, _agent.max_output_tokens, _model.max_output_tokens) * _model.output_price) / 1000000;
    if _least > _agent.max_cost then
        raise exception 'max_cost of % US dollars is too low: one call of model "%" can cost %',
            trim_scale(_agent.max_cost), _model.name, trim_scale(round(_least, 6))
            using errcode = 'WA014',
                  hint = format('Use a max_cost of at least %s, or a less expensive model.', trim_scale(round(2 * _least, 6)));
    end if;
end;
$$;

-- The definition that runs use, as of now.
--
-- Args: _attachment: its `definition` is NULL, or the previous one, of which the condition is still true.
create or replace function agent_internal.define(_attachment agent.attachment)
    returns jsonb
    language plpgsql
as $$
declare
    _agent agent.agent;
    _tools jsonb;
    _names text[];
    _used  text[] := '{}';
    _old   text[] := '{}';
    _whole boolean := false;
    _compiled text;
    _filter text;
    _finish text;
    _absent text[] := '{}';
begin
    select * into _agent from agent.agent where tenant = _attachment.tenant and name = _attachment.agent;
    if found then
        _agent := agent_internal.effective_agent(_agent);
        perform agent_internal.check_model(_agent.model, _agent.tenant);
    end if;
    if _attachment.condition is not null and _attachment.definition is not null then
        _used := array(select jsonb_array_elements_text(_attachment.definition -> 'condition_columns'));
        _old := array(select jsonb_array_elements_text(_attachment.definition -> 'old_columns')
                       union select jsonb_array_elements_text(_attachment.definition -> 'missing_old') order by 1);
        _whole := (_attachment.definition ->> 'whole_row')::boolean;
        _compiled := _attachment.definition ->> 'condition';
        perform agent_internal.check_columns(_attachment.relation, _used, 'the condition');
        perform agent_internal.check_streamed(_attachment.relation, _used, 'the condition', 'WA012');
    elsif _attachment.condition is not null then
        select columns, old_columns, whole_row, compiled into _used, _old, _whole, _compiled
          from agent_internal.compile_condition(_attachment.relation, _attachment.condition, _attachment.search_path);
    end if;
    if _attachment.ops <> '{insert}' then
        _absent := array(select unnest(_old) except select unnest(agent_internal.identity_columns(_attachment.relation)) order by 1);
    end if;
    if _absent <> '{}' then
        raise warning 'the condition of "%" reads % from old, which is NULL: the replica identity of % does not include it',
            _attachment.name, (select string_agg(format('"%s"', c), ', ') from unnest(_absent) c), _attachment.relation
            using hint = format('alter table %s replica identity full', _attachment.relation);
    end if;
    if _attachment.server_filter then
        if _attachment.definition is null then
            _filter := agent_internal.row_filter(_attachment.relation, _compiled);
        else
            _filter := _attachment.definition ->> 'row_filter';
            if _filter is null then
                raise exception 'server_filter requires that the condition is compiled, and role "%" wrote it',
                    _attachment.attached_by
                    using errcode = 'WA012', hint = 'Let that role set server_filter, or change the condition, too.';
            end if;
        end if;
        if _filter is null or _attachment.ops <> '{insert}' then
            raise exception 'server_filter requires on=insert and leakproof comparisons on new'
                using errcode = 'WA012', hint = 'Omit server_filter: walagent then evaluates the condition itself.';
        end if;
    end if;
    _names := _agent.tools;
    if _attachment.writes <> '{}' and not 'update_row' = any (_names) then
        _names := _names || '{update_row}';
    end if;
    select coalesce(jsonb_agg(agent_internal.resolve_tool(t, _attachment) order by n), '[]') into _tools
      from unnest(_names) with ordinality as x (t, n);
    _tools := agent_internal.with_approvals(_tools, _agent);
    if _agent.tool_choice not in ('auto', 'required') and not _agent.tool_choice = any (_names) then
        raise exception 'tool_choice "%" is not among the tools', _agent.tool_choice
            using errcode = 'WA011', hint = agent_internal.suggest(_agent.tool_choice, _names || '{auto,required}');
    end if;
    perform agent_internal.check_approve(_attachment.approve, _names);
    perform agent_internal.check_tools(_tools, _attachment.bind);
    perform agent_internal.check_model(_agent, _tools);
    _finish := coalesce(_agent.finish, case
        when _agent.tool_choice not in ('auto', 'required') then 'after_call'
        when 'update_row' = any (_names) and _names <@ '{update_row,do_nothing}' then 'after_call'
        else 'answer' end);
    return to_jsonb(_attachment) - '{paused,paused_reason,paused_by,attached_at,source,definition}'::text[]
        - case when to_jsonb(_attachment) -> 'turns' = 'null' then 'turns' else '' end || jsonb_build_object(
        'relation_oid', _attachment.relation::oid::bigint,
        'schema', (select nspname from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
                    where c.oid = _attachment.relation),
        'table', (select relname from pg_catalog.pg_class where oid = _attachment.relation),
        'key_columns', agent_internal.key_columns(_attachment.relation),
        'condition', _compiled, 'condition_columns', _used, 'whole_row', _whole,
        -- What it reads of the old row, and the WAL has: without it, the result would differ.
        'old_columns', array(select unnest(_old) intersect select unnest(agent_internal.identity_columns(_attachment.relation)) order by 1),
        'missing_old', to_jsonb(_absent),
        'json_columns', agent_internal.json_columns(_attachment.relation),
        'row_filter', _filter,
        'debounce_seconds', extract(epoch from _attachment.debounce),
        'approval_seconds', extract(epoch from _attachment.approval_ttl),
        'agent_version', _agent.version,
        'model', _agent.model, 'system_prompt', _agent.system_prompt, 'tools', _tools,
        'tool_choice', agent_internal.tool_name(_agent.tool_choice), 'examples', _agent.examples, 'parameters', _agent.parameters,
        'max_steps', _agent.max_steps, 'max_tokens', _agent.max_tokens, 'max_cost', _agent.max_cost,
        'max_seconds', _agent.max_seconds, 'max_attempts', _agent.max_attempts,
        'max_output_tokens', _agent.max_output_tokens, 'finish', _finish)
        || agent_internal.behavior_of(_agent);
end;
$$;

-- The arguments of a tool over HTTP, from its templates: a string for each placeholder.
create function agent_internal.json_schema_of(_url text, _http jsonb)
    returns jsonb
    language sql
    immutable
    set search_path = pg_catalog, pg_temp
as $$
    with texts (text) as (
        select _url
         union all
        select t #>> '{}' from jsonb_path_query(jsonb_build_array(_http -> 'headers', _http -> 'body'), 'strict $.**') t
         where jsonb_typeof(t) = 'string'
    ), arguments (name) as (
        select distinct m[1]
          from texts, regexp_matches(replace(replace(text, '{{', ''), '}}', ''), '\{([A-Za-z_][A-Za-z0-9_]*)\}', 'g') m
         where m[1] not in ('idempotency_key', 'run_id')
    )
    select jsonb_build_object('type', 'object', 'additionalProperties', false,
               'properties', coalesce(jsonb_object_agg(name, '{"type": "string"}'::jsonb order by name), '{}'),
               'required', coalesce(jsonb_agg(name order by name), '[]'))
      from arguments
$$;

-- Reject a tool over HTTP that no worker could call.  The host is literal: no argument chooses where a request goes.
create function agent_internal.check_http_tool()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _known constant text[] := '{method,headers,body,idempotency_header,max_bytes}';
    _method text;
    _word   text;
begin
    select k into _word from jsonb_object_keys(new.http) k where k <> all (_known) limit 1;
    if found then
        raise exception 'tool "%": http: unknown key "%"', new.name, _word
            using errcode = 'WA011', hint = agent_internal.suggest(_word, _known);
    end if;
    if new.target !~ '^https?://([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?([/?][^\s#\\]*)?$' then
        raise exception 'tool "%": invalid URL: expected http:// or https://, a host without placeholders, and a path', new.name
            using errcode = 'WA011';
    end if;
    new.http := jsonb_build_object('method', 'POST') || new.http;
    _method := new.http ->> 'method';
    if _method is null or _method not in ('GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE') then
        raise exception 'tool "%": http: invalid method "%"', new.name, _method
            using errcode = 'WA011', hint = 'Use GET, HEAD, POST, PUT, PATCH or DELETE.';
    elsif jsonb_typeof(coalesce(new.http -> 'headers', '{}')) <> 'object'
          or exists (select from jsonb_each(coalesce(new.http -> 'headers', '{}')) h
                      where jsonb_typeof(h.value) <> 'string' or h.value #>> '{}' ~ '[[:cntrl:]]'
                         or h.key !~ '^[A-Za-z0-9-]+$'
                         or lower(h.key) in ('host', 'content-length', 'transfer-encoding', 'connection')) then
        raise exception 'tool "%": http: headers must be an object of strings, without Host, Content-Length, Transfer-Encoding and Connection',
            new.name using errcode = 'WA011';
    elsif coalesce(new.http ->> 'idempotency_header', 'x') !~ '^[A-Za-z0-9-]+$'
          or lower(new.http ->> 'idempotency_header') in ('host', 'content-length', 'transfer-encoding', 'connection')
          or jsonb_typeof(coalesce(new.http -> 'max_bytes', '1')) <> 'number'
          or coalesce((new.http ->> 'max_bytes')::numeric, 1) not between 1 and 1048576 then
        raise exception 'tool "%": http: idempotency_header must be a header''s name, and max_bytes a number up to 1048576',
            new.name using errcode = 'WA011';
    end if;
    -- transactional is the default of the column, and nothing outside the database is.
    if new.effect = 'transactional' then
        new.effect := case when _method in ('GET', 'HEAD', 'PUT', 'DELETE') then 'idempotent' else 'unsafe' end;
    elsif new.effect = 'read' then
        raise exception 'tool "%": the effect of a tool over HTTP is idempotent or unsafe', new.name using errcode = 'WA011';
    end if;
    select a into _word
      from jsonb_object_keys(agent_internal.json_schema_of(new.target, new.http) -> 'properties') a
     where new.input_schema is not null and not coalesce(new.input_schema -> 'properties', '{}') ? a
     limit 1;
    if found then
        raise exception 'tool "%": placeholder "%" is not among the properties of input_schema', new.name, _word
            using errcode = 'WA011';
    end if;
    return new;
end;
$$;
create trigger check_http_tool
    before insert or update on agent.tool
    for each row when (new.kind = 'http' and new.http is not null) execute function agent_internal.check_http_tool();

create or replace function agent_internal.resolve_tool(_name text, _attachment agent.attachment)
    returns jsonb
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _row      agent.tool;
    _tool     jsonb;
    _function regprocedure;
    _bind     jsonb;
    _key      text;
begin
    _row := agent_internal.tool_of(_attachment.tenant, _name);
    if not _row.enabled then
        raise exception 'tool "%" is disabled', _name
            using errcode = 'WA011', hint = format('update agent.tool set enabled = true where name = %L', _name);
    elsif _row.kind = 'builtin' and _row.target = 'update_row' then
        _tool := agent_internal.update_tool(_attachment);
    elsif _row.kind = 'builtin' and _row.target = 'query' then
        _tool := agent_internal.query_tool(_name, coalesce(_attachment.query_as, 'walagent_analyst'));
    elsif _row.kind = 'http' then
        _tool := jsonb_build_object('http', _row.http, 'input_schema', agent_internal.json_schema_of(_row.target, _row.http));
    elsif _row.kind in ('builtin', 'python', 'mcp', 'llm') then
        _tool := jsonb_build_object('input_schema', '{"type": "object", "properties": {}, "additionalProperties": false}'::jsonb);
    else
        if _row.kind = 'sql' and _row.target like '%(%)' then
            perform set_config('search_path', _attachment.search_path, true);
            _function := pg_catalog.to_regprocedure(_row.target);
            perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
        end if;
        if _function is null then
            _function := agent_internal.find_function(coalesce(_row.target, _name), _attachment.search_path);
        end if;
        if _function is null then
            raise exception 'tool "%" does not exist', _name
                using errcode = 'WA011',
                      hint = 'A tool is a row of agent.tool or a function in the search_path. '
                             || coalesce(substring(agent_internal.suggest(_name, array(
                                    select proname::text from pg_catalog.pg_proc
                                     where pronamespace = any (array(select to_regnamespace(quote_ident(n))::oid
                                                                       from unnest(agent_internal.schemas_of(_attachment.search_path)) n))))
                                    from '^Did you mean "[^"]*"[?] '), '')
                             || agent_internal.suggest(_name, (select array_agg(distinct name) from agent.tool where enabled and (tenant is null or tenant = _attachment.tenant)));
        end if;
        perform agent_internal.check_function(_name, _function, _attachment.run_as);
        _tool := agent_internal.function_tool(_function);
    end if;
    if _row.name is not null then
        _tool := _tool || jsonb_strip_nulls(jsonb_build_object(
            'kind', _row.kind, 'target', case when _row.kind = 'sql' then null else _row.target end,
            'description', nullif(_row.description, ''), 'input_schema', _row.input_schema,
            'effect', case when _row.kind = 'sql' then _tool ->> 'effect' else _row.effect end,
            'fingerprint', _row.fingerprint, 'risk', _row.risk, 'version', _row.version, 'scope', to_jsonb(_row) ->> 'scope', 'llm', nullif(to_jsonb(_row) -> 'llm', 'null'),
            'output_schema', _row.output_schema, 'retries', _row.retries, 'retry_seconds', _row.retry_seconds,
            'timeout', _row.timeout_seconds));
    end if;

    -- Bound arguments are removed from the schema: the model neither sees nor sets them.
    select coalesce(jsonb_object_agg(b.key, b.value), '{}')
      into _bind
      from jsonb_each_text(coalesce(_row.bind, '{}') || _attachment.bind) b
     where _tool -> 'input_schema' -> 'properties' ? b.key;
    for _key in select value from jsonb_each_text(_bind) loop
        if not exists (select from pg_catalog.pg_attribute
                        where attrelid = _attachment.relation and attname = _key and attnum > 0 and not attisdropped) then
            raise exception 'tool "%": bind: column "%" of % does not exist', _name, _key, _attachment.relation
                using errcode = 'WA011';
        end if;
    end loop;
    return jsonb_build_object('timeout', 30) || _tool || jsonb_build_object(
        'name', agent_internal.tool_name(_name),
        'bind', _bind,
        'approval', coalesce(_row.approval, false) or _name = any (_attachment.approve)
                    or agent_internal.approves_risk(_row.risk, _attachment),
        'input_schema', agent_internal.drop_arguments(_tool -> 'input_schema', array(select jsonb_object_keys(_bind))));
end;
$$;

-- Why a call exceeds a budget; NULL: it does not.
--
-- What calls in progress have reserved is released within seconds, and most cost far less than the worst case.  An
-- exhausted total can only be raised, which requeues the runs that wait for it.  If waiting is not brief, the result has
-- what is left, so that the caller can lower its output limit.
create or replace function agent_internal.refusal(
    _budget agent.budget, _use agent_internal.budget_use, _model text, _tokens bigint, _cost numeric, _now timestamptz,
    out refusal jsonb
)
    language plpgsql
as $$
declare
    _money  constant boolean := coalesce(_use.spent_cost + _use.reserved_cost + _cost > _budget.max_cost, false);
    _spent  constant numeric := case when _money then _use.spent_cost else _use.spent_tokens end;
    _held   constant numeric := case when _money then _use.reserved_cost else _use.reserved_tokens end;
    _wanted constant numeric := case when _money then _cost else _tokens end;
    _limit  constant numeric := case when _money then _budget.max_cost else _budget.max_tokens end;
    _unit   constant text := case when _money then 'US dollars' else 'tokens' end;
    _resets constant timestamptz := agent_internal.period_end(_budget.period, _now);
    _reason text;
    _wait   numeric;
    _brief  boolean := _limit is null;
begin
    if _budget.on_exceeded = 'warn' then
        return;
    elsif _budget.max_cost is not null and _cost is null then
        _reason := format('model "%s" has no price, which budget "%s" in US dollars requires; set its input_price '
                          'and output_price, or use max_tokens instead', _model, _budget.name);
        _wait := 86400;  -- agent_internal.wake_priced() requeues the run earlier
    elsif _spent + _held + _wanted <= _limit or _limit is null then
        return;
    elsif _wanted > _limit then
        _reason := format('one call needs up to %s %s, more than all of budget "%s" (%s); raise it, or lower '
                          'max_output_tokens', agent_internal.short_number(_wanted), _unit, _budget.name, agent_internal.short_number(_limit));
    elsif _spent + _wanted <= _limit then
        _wait := 1 + 2 * random();
        _brief := true;
        _reason := format('budget "%s": %s of %s %s spent, %s reserved by calls in progress, next call needs up to %s',
                          _budget.name, agent_internal.short_number(_spent), agent_internal.short_number(_limit), _unit,
                          agent_internal.short_number(_held), agent_internal.short_number(_wanted));
    else
        if _budget.on_exceeded = 'wait' then
            _wait := coalesce(extract(epoch from _resets - _now), 86400);
        end if;
        _reason := format('budget "%s" exhausted: %s of %s %s spent, next call needs up to %s; ', _budget.name,
                          agent_internal.short_number(_spent), agent_internal.short_number(_limit), _unit, agent_internal.short_number(_wanted))
                   || coalesce(to_char(_resets at time zone 'UTC', '"resets at" YYYY-MM-DD HH24:MI "UTC"'),
                               'it does not reset');
    end if;
    refusal := jsonb_strip_nulls(jsonb_build_object(
        'budget', _budget.name, 'version', _budget.version, 'reason', _reason, 'wait', _wait,
        'unpriced', case when _budget.max_cost is not null and _cost is null then _model end,
        'left_cost', case when _money and not _brief then greatest(_limit - _spent - _held, 0) end,
        'left_tokens', case when not _money and not _brief then greatest(_limit - _spent - _held, 0) end));
end;
$$;

-- Requeue the runs that wait because their model has no price.
create function agent_internal.wake_priced()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    update agent.run set next_attempt_at = agent_internal.now()
     where id in (select r.id from agent.run r
                   where r.state = 'waiting_retry' and r.error ->> 'unpriced' = new.name
                     -- As JSON: called by the next migrations, before there are tenants.
                     and coalesce(to_jsonb(new) ->> 'tenant' = to_jsonb(r) ->> 'tenant', true)
                   order by r.id for no key update skip locked);
    perform pg_notify('walagent_runs', '');
    return null;
end;
$$;
create trigger wake_priced
    after update of input_price, output_price on agent.model
    for each row when (new.input_price is not null and new.output_price is not null)
    execute function agent_internal.wake_priced();

drop function agent.attach(regclass, text, text, text[], text, text[], text, text[], text[], jsonb, text[], name, text[],
    interval, integer, boolean, boolean, jsonb, jsonb, text, integer, integer, bigint, numeric, integer, integer, name);

-- Attach an agent, with named arguments.  Creates or changes the agent that has the name of the attachment.
--
-- Args: tenant: a column of the table whose text names the tenant of each row; NULL: all runs are of the caller's.
-- replace: change an attachment of this name and table that was made in SQL, instead of raising WA013.
create function agent.attach(
    target        regclass,
    model         text,
    system_prompt text default '',
    tools         text[] default '{}',
    name          text default null,
    ops           text[] default '{insert}',
    condition     text default null,
    columns       text[] default null,
    writes        text[] default '{}',
    bind          jsonb default '{}',
    approve       text[] default '{}',
    run_as        name default current_user,
    ordering_key      text[] default null,
    debounce      interval default null,
    cap           integer default null,
    backfill      boolean default false,
    server_filter boolean default false,
    examples      jsonb default '[]',
    parameters    jsonb default '{}',
    tool_choice   text default 'auto',
    max_depth     integer default 3,
    max_steps     integer default 20,
    max_tokens    bigint default null,
    max_cost      numeric default null,
    max_seconds   integer default 600,
    max_attempts  integer default 5,
    query_as      name default null,
    finish        text default null,
    max_output_tokens integer default null,
    replace       boolean default false,
    tenant        text default null
)
    returns bigint
    language plpgsql
as $$
#variable_conflict use_column
declare
    _name text := coalesce(attach.name, (select relname from pg_catalog.pg_class where oid = attach.target));
    _id   bigint;
    _old  agent.attachment;
    _state   text;
    _message text;
    _table   text;
    _constraint text;
    _detail  text;
    _hint    text;
begin
    if attach.finish not in ('answer', 'after_call') then
        raise exception 'invalid value of "finish": expected answer or after_call, found "%"', attach.finish
            using errcode = 'WA010';
    end if;
    perform agent_internal.check_model(attach.model, agent.current_tenant());
    select * into _old from agent.attachment a where a.tenant = agent.current_tenant() and a.name = _name for update;
    if _old.id is not null and (not attach.replace or _old.relation <> attach.target or _old.source <> 'sql') then
        raise exception 'attachment "%" already exists', _name
            using errcode = 'WA013',
                  detail = case when attach.replace and _old.source <> 'sql' then 'It comes from a file.'
                                when attach.replace then format('It belongs to table %s.', _old.relation) else '' end,
                  hint = case when _old.source <> 'sql' then 'Change the file and run walagent apply.'
                              when _old.relation <> attach.target then format('Use another name, or first run select agent.detach(%L).', _name)
                              else 'Add replace => true (in a spec: replace=true) to change it, or use another name.' end;
    end if;
    insert into agent.agent (name, model, system_prompt, tools, tool_choice, examples, parameters,
                             max_steps, max_tokens, max_cost, max_seconds, max_attempts, finish, max_output_tokens)
    values (_name, attach.model, attach.system_prompt, attach.tools, attach.tool_choice, attach.examples, attach.parameters,
            attach.max_steps, attach.max_tokens, attach.max_cost, attach.max_seconds, attach.max_attempts,
            attach.finish, attach.max_output_tokens)
    on conflict (tenant, name) do update
       set model = excluded.model, system_prompt = excluded.system_prompt, tools = excluded.tools,
           tool_choice = excluded.tool_choice, examples = excluded.examples, parameters = excluded.parameters, max_steps = excluded.max_steps,
           max_tokens = excluded.max_tokens, max_cost = excluded.max_cost,
           max_seconds = excluded.max_seconds, max_attempts = excluded.max_attempts,
           finish = excluded.finish, max_output_tokens = excluded.max_output_tokens;
    if _old.id is not null then
        update agent.attachment
           set (agent, ops, condition, columns, writes, bind, approve, run_as, query_as, ordering_key, debounce, cap, backfill, server_filter, max_depth,
                tenant_column)
             = row (_name, attach.ops, attach.condition, attach.columns, attach.writes, attach.bind, attach.approve, attach.run_as, attach.query_as,
                    attach.ordering_key, attach.debounce, attach.cap, attach.backfill, attach.server_filter, attach.max_depth, attach.tenant)
         where id = _old.id;
        return _old.id;
    end if;
    insert into agent.attachment (name, agent, relation, ops, condition, columns, writes, bind, approve,
                                  run_as, query_as, ordering_key, debounce, cap, backfill, server_filter, max_depth, tenant_column)
    values (_name, _name, attach.target, attach.ops, attach.condition, attach.columns, attach.writes, attach.bind,
            attach.approve, attach.run_as, attach.query_as, attach.ordering_key, attach.debounce, attach.cap, attach.backfill, attach.server_filter, attach.max_depth, attach.tenant)
    returning id into _id;
    return _id;
exception when others then
    -- Raised again from here: psql would print the stack of PL/pgSQL functions.
    get stacked diagnostics _state = returned_sqlstate, _message = message_text, _table = table_name,
                            _detail = pg_exception_detail, _hint = pg_exception_hint, _constraint = constraint_name;
    if _state = '23514' then
        select format('invalid value of "%s": expected %s', a.attname, substring(pg_get_constraintdef(c.oid) from '^CHECK \(\((.*)\)\)$'))
          into strict _message
          from pg_catalog.pg_constraint c join pg_catalog.pg_attribute a on a.attrelid = c.conrelid and a.attnum = c.conkey[1]
         where c.conname = _constraint and c.conrelid = format('agent.%I', _table)::regclass;
        _message := regexp_replace(_message, '::[a-z ]+', '', 'g');
        _detail := '';
    end if;
    if _detail <> '' and _hint <> '' then
        raise exception using errcode = _state, message = _message, detail = _detail, hint = _hint;
    elsif _detail <> '' then
        raise exception using errcode = _state, message = _message, detail = _detail;
    elsif _hint <> '' then
        raise exception using errcode = _state, message = _message, hint = _hint;
    end if;
    raise exception using errcode = _state, message = _message;
end;
$$;

comment on function agent.attach(regclass, text, text, text[], text, text[], text, text[], text[], jsonb, text[], name, text[],
    interval, integer, boolean, boolean, jsonb, jsonb, text, integer, integer, bigint, numeric, integer, integer, name, text, integer, boolean, text)
    is 'Attach an agent to a table, with named arguments';

-- Attach an agent by a spec: agent.attach('tickets', 'model=gpt-4o, system_prompt="...", tools=[a, b]').
--
-- Raises WA010 (spec), WA011 (tool), WA012 (condition), WA013 (table, column, name), WA014 (model).
create or replace function agent.attach(target text, spec text)
    returns bigint
    language plpgsql
as $$
declare
    _known constant text[] := '{model,system_prompt,tools,name,on,when,columns,writes,bind,approve,run_as,query_as,ordering_key,'
        'debounce,cap,backfill,server_filter,tool_choice,max_depth,max_steps,max_tokens,max_cost,max_seconds,max_attempts,'
        'finish,max_output_tokens,replace,tenant}';
    _lists constant text[] := '{tools,on,columns,writes,bind,approve,ordering_key}';
    _spec  jsonb;
    _table regclass := to_regclass(target);
    _key   text;
    _state   text;
    _message text;
    _detail  text;
    _hint    text;
begin
    _spec := agent_internal.parse_spec(spec);
    if _table is null then
        raise exception 'table "%" does not exist', target
            using errcode = 'WA013',
                  hint = coalesce((select format('Did you mean "%s"?', oid::regclass) from pg_catalog.pg_class
                                    where relkind in ('r', 'p') and relname = target and not pg_table_is_visible(oid)
                                    order by oid limit 1),
                                  agent_internal.suggest(target, (select array_agg(relname::text) from pg_catalog.pg_class
                                                                   where relkind in ('r', 'p') and pg_table_is_visible(oid)
                                                                     and relnamespace <> 'pg_catalog'::regnamespace)));
    end if;
    for _key in select jsonb_object_keys(_spec) loop
        if _key <> all (_known) then
            raise exception 'invalid spec: unknown key "%"', _key using errcode = 'WA010', hint = agent_internal.suggest(_key, _known);
        elsif jsonb_typeof(_spec -> _key) = 'array' and _key <> all (_lists) then
            raise exception 'invalid spec: "%" takes one value, not a list', _key using errcode = 'WA010';
        elsif jsonb_typeof(_spec -> _key) = 'string' and _key = any (_lists) then
            _spec := _spec || jsonb_build_object(_key, jsonb_build_array(_spec -> _key));
        end if;
    end loop;
    if not _spec ? 'model' then
        raise exception 'invalid spec: "model" is missing'
            using errcode = 'WA010', hint = 'Add model=NAME. The table agent.model lists the models.';
    end if;
    return agent.attach(
        target        => _table,
        model         => _spec ->> 'model',
        system_prompt => coalesce(_spec ->> 'system_prompt', ''),
        tools         => agent_internal.spec_list(_spec, 'tools', '{}'),
        name          => _spec ->> 'name',
        ops           => agent_internal.spec_ops(agent_internal.spec_list(_spec, 'on', '{insert}')),
        condition     => _spec ->> 'when',
        columns       => agent_internal.spec_list(_spec, 'columns', null),
        writes        => agent_internal.spec_list(_spec, 'writes', '{}'),
        bind          => agent_internal.spec_bind(agent_internal.spec_list(_spec, 'bind', '{}')),
        approve       => agent_internal.spec_list(_spec, 'approve', '{}'),
        run_as        => coalesce(_spec ->> 'run_as', current_user)::name,
        query_as      => (_spec ->> 'query_as')::name,
        ordering_key      => agent_internal.spec_list(_spec, 'ordering_key', null),
        debounce      => agent_internal.spec_cast(_spec, 'debounce', 'interval', null)::interval,
        cap           => agent_internal.spec_cast(_spec, 'cap', 'integer', null)::integer,
        backfill      => agent_internal.spec_cast(_spec, 'backfill', 'boolean', 'false')::boolean,
        server_filter => agent_internal.spec_cast(_spec, 'server_filter', 'boolean', 'false')::boolean,
        tool_choice   => coalesce(_spec ->> 'tool_choice', 'auto'),
        max_depth     => agent_internal.spec_cast(_spec, 'max_depth', 'integer', '3')::integer,
        max_steps     => agent_internal.spec_cast(_spec, 'max_steps', 'integer', '20')::integer,
        max_tokens    => agent_internal.spec_cast(_spec, 'max_tokens', 'bigint', null)::bigint,
        max_cost      => agent_internal.spec_cast(_spec, 'max_cost', 'numeric', null)::numeric,
        max_seconds   => agent_internal.spec_cast(_spec, 'max_seconds', 'integer', '600')::integer,
        max_attempts  => agent_internal.spec_cast(_spec, 'max_attempts', 'integer', '5')::integer,
        finish        => _spec ->> 'finish',
        max_output_tokens => agent_internal.spec_cast(_spec, 'max_output_tokens', 'integer', null)::integer,
        replace       => agent_internal.spec_cast(_spec, 'replace', 'boolean', 'false')::boolean,
        tenant        => _spec ->> 'tenant');
exception when others then
    -- Raised again from here: psql would print the stack of PL/pgSQL functions.
    get stacked diagnostics _state = returned_sqlstate, _message = message_text,
                            _detail = pg_exception_detail, _hint = pg_exception_hint;
    if _detail <> '' and _hint <> '' then
        raise exception using errcode = _state, message = _message, detail = _detail, hint = _hint;
    elsif _detail <> '' then
        raise exception using errcode = _state, message = _message, detail = _detail;
    elsif _hint <> '' then
        raise exception using errcode = _state, message = _message, hint = _hint;
    end if;
    raise exception using errcode = _state, message = _message;
end;
$$;
comment on function agent.attach(text, text) is 'Attach an agent to a table, by a spec: agent.attach(''tickets'', ''model=gpt-4o, tools=[a, b]'')';

-- The roles that could use the former functions can use these.
do $$
declare
    _new  regprocedure;
    _like regprocedure;
    _role oid;
begin
    for _new, _like in
        select * from (values
            ('agent.attach(regclass, text, text, text[], text, text[], text, text[], text[], jsonb, text[], name, text[], interval, integer, boolean, boolean, jsonb, jsonb, text, integer, integer, bigint, numeric, integer, integer, name, text, integer, boolean, text)'::regprocedure, 'agent.detach(text)'::regprocedure),
            ('agent_internal.check_model(agent.agent, jsonb)', 'agent_internal.check_model(text)'),
            ('agent_internal.json_schema_of(text, jsonb)', 'agent_internal.json_schema_of(oid, integer)')) as f (new, alike)
    loop
        execute format('revoke all on function %s from public', _new);
        for _role in
            select a.grantee
              from pg_catalog.pg_proc p, aclexplode(p.proacl) a
             where p.oid = _like and a.grantee not in (0, p.proowner) and a.privilege_type = 'EXECUTE'
        loop
            execute format('grant execute on function %s to %s', _new, _role::regrole);
        end loop;
    end loop;
end;
$$;
revoke all on function agent_internal.check_http_tool(), agent_internal.wake_priced() from public;
