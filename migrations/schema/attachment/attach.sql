-- Attach, change, pause and detach: what follows from a row of agent.attachment or agent.agent.
--
-- These triggers have the rights of the schema's owner, who must own the publications.

-- Attach an agent, with named arguments.  Creates or changes the agent that has the name of the attachment.
--
-- Args: tenant: a column of the table whose text names the tenant of each row; NULL: all runs are of the caller's.
-- replace: change an attachment of this name and table that was made in SQL, instead of raising WA013.
create or replace function agent.attach(
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
comment on function agent.attach(regclass, text, text, text[], text, text[], text, text[], text[], jsonb, text[], name, text[], interval, integer, boolean, boolean, jsonb, jsonb, text, integer, integer, bigint, numeric, integer, integer, name, text, integer, boolean, text) is 'Attach an agent to a table, with named arguments';

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

-- The argument is the name of an attachment or a table; with a table, all its attachments are detached.  The agent that
-- has the name of a removed attachment goes with it, unless another attachment uses it.
create or replace function agent.detach(target text)
    returns integer
    language plpgsql
as $$
declare
    _names text[];
    _table regclass;
begin
    with removed as (delete from agent.attachment
                      where name = target and tenant = agent.current_tenant() returning name)
    select coalesce(array_agg(name), '{}') into _names from removed;
    if _names = '{}' then
        begin
            _table := to_regclass(target);
        exception when invalid_name then
            null;  -- it names no table; PostgreSQL 15 raises
        end;
        with removed as (delete from agent.attachment
                           where relation = _table and tenant = agent.current_tenant() returning name)
        select coalesce(array_agg(name), '{}') into _names from removed;
    end if;
    if _names = '{}' then
        raise exception 'no attachment or attached table is named "%"', target
            using errcode = 'WA013', hint = agent_internal.suggest(target, (select array_agg(name) from agent.attachment where tenant = agent.current_tenant()));
    end if;
    delete from agent.agent g
     where g.tenant = agent.current_tenant() and g.name = any (_names)
       and not exists (select from agent.attachment a where a.tenant = g.tenant and a.agent = g.name);
    return cardinality(_names);
end;
$$;
comment on function agent.detach(text) is 'Remove an attachment, or all of a table; existing runs continue, unless it is paused: then they are cancelled';

create or replace function agent.pause(name text, reason text default null)
    returns void
    language plpgsql
as $$
begin
    update agent.attachment a set paused = true, paused_reason = pause.reason,
                                  paused_by = coalesce(agent.current_principal(), session_user)
     where a.name = pause.name and a.tenant = agent.current_tenant();
    if not found then
        raise exception 'attachment "%" does not exist', pause.name
            using errcode = 'WA013', hint = agent_internal.suggest(pause.name, (select array_agg(a.name) from agent.attachment a where a.tenant = agent.current_tenant()));
    end if;
end;
$$;
comment on function agent.pause(text, text) is 'Stop an attachment from starting runs; changes are still ingested';

create or replace function agent.resume(name text)
    returns void
    language plpgsql
as $$
begin
    update agent.attachment a set paused = false, paused_reason = null, paused_by = null where a.name = resume.name and a.tenant = agent.current_tenant();
    if not found then
        raise exception 'attachment "%" does not exist', resume.name
            using errcode = 'WA013', hint = agent_internal.suggest(resume.name, (select array_agg(a.name) from agent.attachment a where a.tenant = agent.current_tenant()));
    end if;
    perform pg_notify('walagent_runs', '');
end;
$$;
comment on function agent.resume(text) is 'Resume a paused attachment, after a check of its table, roles and tools';
