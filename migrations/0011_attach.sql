-- Attach, change, pause and detach: what follows from a row of agent.attachment or agent.agent.
--
-- These triggers have the rights of the schema's owner, who must own the publications.

-- Keep the new version, and bring the publication in step.  With the rights of the schema's
-- owner; nobody else may execute it, so it can serve no other table than ours.
create function agent_internal.freeze_attachment()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '10s'
as $$
declare
    _lost text;
begin
    if tg_op = 'INSERT' or new.version <> old.version then
        insert into agent.attachment_version (attachment_id, version, definition)
        values (new.id, new.version, new.definition);
    end if;
    if tg_op = 'INSERT' and new.backfill then
        insert into agent.backfill (attachment_id, version) values (new.id, new.version);
    end if;
    if tg_op = 'UPDATE' and (new.version <> old.version or old.paused and not new.paused) then
        perform agent_internal.repin_runs(new.id, new.version);
    end if;
    -- Not to pause: that must wait for nobody.
    if tg_op = 'INSERT' or new.version <> old.version then
        perform agent_internal.request_for_attachments(new.relation);
        perform agent_internal.publish_relation(new.relation);
    end if;
    if tg_op = 'UPDATE' and old.relation <> new.relation then
        perform agent_internal.request_for_attachments(old.relation);
        perform agent_internal.publish_relation(old.relation);
    end if;
    if not new.paused and (tg_op = 'INSERT' or new.version <> old.version or old.paused) then
        _lost := agent_internal.drift_of(new.definition);
        if _lost is not null then
            raise exception '%', _lost using errcode = 'WA013';
        end if;
    end if;
    return null;
end;
$$;
create trigger freeze_attachment
    after insert or update on agent.attachment
    for each row execute function agent_internal.freeze_attachment();

-- The queue follows as the transaction commits: a person's may stay open for long, and every claim and
-- every intake needs the queue.
create function agent_internal.sync_queue()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    insert into agent_internal.queue (id, kind, attachment_id, cap, paused)
    select id, 'agent', id, cap, paused from agent.attachment where id = new.id
    on conflict (id) do update set cap = excluded.cap, paused = excluded.paused, queued = true;
    return null;
end;
$$;
create constraint trigger sync_queue
    after insert or update on agent.attachment
    deferrable initially deferred
    for each row execute function agent_internal.sync_queue();

create function agent_internal.check_detach()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if not agent_internal.may_change(old.attached_by) then
        raise exception 'attachment "%" belongs to role "%"', old.name, old.attached_by using errcode = '42501';
    end if;
    return old;
end;
$$;
create trigger check_detach
    before delete on agent.attachment
    for each row execute function agent_internal.check_detach();

create function agent_internal.delete_attachment_state()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '10s'
as $$
begin
    delete from agent.backfill where attachment_id = old.id;
    perform agent_internal.request_for_attachments(old.relation);
    perform agent_internal.publish_relation(old.relation);
    return null;
end;
$$;
create trigger forget_attachment
    after delete on agent.attachment
    for each row execute function agent_internal.delete_attachment_state();

create function agent_internal.delete_queue()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    delete from agent_internal.queue where attachment_id = old.id;
    return null;
end;
$$;
create constraint trigger delete_queue
    after delete on agent.attachment
    deferrable initially deferred
    for each row execute function agent_internal.delete_queue();

create function agent_internal.refuse_truncate()
    returns trigger
    language plpgsql
as $$
begin
    raise exception 'use delete from agent.attachment: a truncate would leave its tables published';
end;
$$;
create trigger refuse_truncate
    before truncate on agent.attachment
    for each statement execute function agent_internal.refuse_truncate();

-- An agent's change is a new version of each of its attachments.
--
-- Whoever changes an agent and its attachments in one transaction would have each attachment checked
-- against half of the change: a tool that is new to the agent may need a column that only the new
-- attachment writes.  With the setting walagent.applying = on, nothing is done here, and the caller
-- makes the versions itself once all is in place.  One that sets it and does not only keeps its own
-- attachments as they were.
create or replace function agent_internal.touch_attachments()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if coalesce(current_setting('walagent.applying', true), '') <> 'on' then
        -- One that has lost its ground can have no new version; resuming will make it.
        update agent.attachment set version = version + 1 where agent = new.name and agent_internal.drift_of(definition) is null;
    end if;
    return null;
end;
$$;
create trigger touch_attachments
    after update on agent.agent
    for each row when (old.* is distinct from new.*) execute function agent_internal.touch_attachments();

create function agent_internal.count_version()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _other agent.attachment;
begin
    select * into _other from agent.attachment a where a.agent = old.name and not agent_internal.may_change(a.attached_by) limit 1;
    if found then
        raise exception 'agent "%" works in attachment "%", which belongs to role "%"', old.name, _other.name, _other.attached_by
            using errcode = '42501';
    end if;
    new.version := old.version + 1;
    new.updated_at := now();
    return new;
end;
$$;
create trigger count_version
    before update on agent.agent
    for each row when (old.* is distinct from new.*) execute function agent_internal.count_version();

-- Read `key=value, key="quoted, value", key=[a, "b c"]` into a JSON object of strings and arrays
-- of strings.  Quotes and brackets are honoured before commas; inside double quotes \" \\ \n \t
-- are escapes and "" is a quote.  A bare value may hold `=`.
--
-- Raises WA010 with the place and what was expected.
create function agent_internal.parse_spec(_spec text)
    returns jsonb
    language plpgsql
    immutable
as $$
declare
    _out   jsonb := '{}';
    _at    integer := 1;
    _end   integer := length(_spec);
    _key   text;
    _word  text;
    _items jsonb;
    _token record;
begin
    loop
        _at := agent_internal.spec_skip(_spec, _at);
        exit when _at > _end;
        _key := substring(substr(_spec, _at) from '^[A-Za-z_][A-Za-z0-9_]*');
        if _key is null then
            raise exception 'spec: expected a key at character %, found "%"', _at, substr(_spec, _at, 20)
                using errcode = 'WA010', hint = 'a spec reads: model=gpt-4o, system_prompt="...", tools=[a, b]';
        end if;
        if _out ? _key then
            raise exception 'spec: "%" is given twice', _key using errcode = 'WA010';
        end if;
        _at := agent_internal.spec_skip(_spec, _at + length(_key));
        if substr(_spec, _at, 1) <> '=' then
            raise exception 'spec: expected = after "%" at character %', _key, _at using errcode = 'WA010';
        end if;
        _at := agent_internal.spec_skip(_spec, _at + 1);
        if substr(_spec, _at, 1) = '[' then
            _items := '[]';
            _at := agent_internal.spec_skip(_spec, _at + 1);
            while substr(_spec, _at, 1) <> ']' loop
                select * into _token from agent_internal.spec_value(_spec, _at, _key, ',]');
                _items := _items || to_jsonb(_token.value);
                _at := agent_internal.spec_skip(_spec, _token.next);
                if substr(_spec, _at, 1) = ',' then
                    _at := agent_internal.spec_skip(_spec, _at + 1);
                elsif substr(_spec, _at, 1) <> ']' then
                    raise exception 'spec: the list of "%" is not closed with ]', _key using errcode = 'WA010';
                end if;
            end loop;
            _out := _out || jsonb_build_object(_key, _items);
            _at := _at + 1;
        else
            select * into _token from agent_internal.spec_value(_spec, _at, _key, ',');
            _out := _out || jsonb_build_object(_key, _token.value);
            _at := _token.next;
        end if;
        _at := agent_internal.spec_skip(_spec, _at);
        exit when _at > _end;
        if substr(_spec, _at, 1) <> ',' then
            raise exception 'spec: expected a comma after the value of "%" at character %, found "%"',
                _key, _at, substr(_spec, _at, 20) using errcode = 'WA010';
        end if;
        _at := _at + 1;
    end loop;
    return _out;
end;
$$;

create function agent_internal.spec_skip(_spec text, _at integer)
    returns integer
    language sql
    immutable
as $$ select _at + length(substring(substr(_spec, _at) from '^\s*')) $$;

-- One value from *_at* on: quoted, or bare up to one of *_stops*.
--
-- By searching, not letter by letter: a long prompt would take seconds.
create function agent_internal.spec_value(_spec text, _at integer, _key text, _stops text, out value text, out next integer)
    language plpgsql
    immutable
as $$
begin
    if substr(_spec, _at, 1) = '"' then
        value := substring(substr(_spec, _at) from '^"(?:[^"\\]|\\.|"")*"(?!")');
        if value is null then
            raise exception 'spec: the quote that opens the value of "%" at character % is not closed', _key, _at
                using errcode = 'WA010';
        end if;
        next := _at + length(value);
        select coalesce(string_agg(case m[2] when 'n' then E'\n' when 't' then E'\t' else coalesce(m[1], m[2], '"') end, ''
                                   order by n), '')
          into value
          from regexp_matches(substr(value, 2, length(value) - 2), '([^"\\]+)|\\(.)|""', 'g') with ordinality as found (m, n);
        return;
    end if;
    value := substring(substr(_spec, _at) from case _stops when ',' then '^[^,]*' else '^[^],]*' end);
    next := _at + length(value);
    value := regexp_replace(value, '\s+$', '');
    if value = '' then
        raise exception 'spec: "%" has no value at character %', _key, _at using errcode = 'WA010';
    end if;
    if value ~ '["\[\]]' then
        raise exception 'spec: the value of "%" holds a quote or bracket in its middle: %', _key, value
            using errcode = 'WA010', hint = 'put the whole value in double quotes';
    end if;
end;
$$;

create function agent_internal.spec_list(_spec jsonb, _key text, _default text[])
    returns text[]
    language sql
    immutable
as $$ select case when _spec ? _key then array(select jsonb_array_elements_text(_spec -> _key)) else _default end $$;

create function agent_internal.spec_ops(_ops text[])
    returns text[]
    language plpgsql
    immutable
as $$
declare
    _op text;
begin
    foreach _op in array _ops loop
        if lower(_op) <> all ('{insert,update,delete,truncate}') then
            raise exception 'spec: on names "%"', _op
                using errcode = 'WA010', hint = agent_internal.suggest(_op, '{insert,update,delete,truncate}');
        end if;
    end loop;
    return array(select lower(o) from unnest(_ops) o);
end;
$$;

create function agent_internal.spec_bind(_pairs text[])
    returns jsonb
    language plpgsql
    immutable
as $$
declare
    _bind jsonb := '{}';
    _pair text;
begin
    foreach _pair in array _pairs loop
        if _pair !~ '^[^=]+=[^=]+$' then
            raise exception 'spec: bind takes argument=column pairs, not "%"', _pair using errcode = 'WA010';
        end if;
        _bind := _bind || jsonb_build_object(btrim(split_part(_pair, '=', 1)), btrim(split_part(_pair, '=', 2)));
    end loop;
    return _bind;
end;
$$;

create function agent_internal.spec_cast(_spec jsonb, _key text, _type text, _default text)
    returns text
    language plpgsql
    stable
as $$
begin
    if _spec ? _key then
        execute format('select %L::%s', _spec ->> _key, _type);
        return _spec ->> _key;
    end if;
    return _default;
exception when data_exception then
    raise exception 'spec: "%" is not %: %', _key,
        case _type when 'interval' then 'a time like 5s or 2 minutes' when 'boolean' then 'true or false' else 'a number' end,
        _spec ->> _key using errcode = 'WA010';
end;
$$;

-- Attach an agent, with named arguments.  Makes or changes the agent called `agent_name`
-- (default: the attachment's name) unless an existing one is named without a model.
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
    query_as      name default null
)
    returns bigint
    language plpgsql
as $$
#variable_conflict use_column
declare
    _name text := coalesce(attach.name, (select relname from pg_catalog.pg_class where oid = attach.target));
    _id   bigint;
    _state   text;
    _message text;
    _detail  text;
    _hint    text;
begin
    perform agent_internal.check_model(attach.model);
    if exists (select from agent.attachment a where a.name = _name) then
        raise exception 'there is an attachment "%" already', _name
            using errcode = 'WA013', hint = 'give this one another name, or agent.detach the old one first';
    end if;
    insert into agent.agent (name, model, system_prompt, tools, tool_choice, examples, parameters,
                             max_steps, max_tokens, max_cost, max_seconds, max_attempts)
    values (_name, attach.model, attach.system_prompt, attach.tools, attach.tool_choice, attach.examples, attach.parameters,
            attach.max_steps, attach.max_tokens, attach.max_cost, attach.max_seconds, attach.max_attempts)
    on conflict (name) do update
       set model = excluded.model, system_prompt = excluded.system_prompt, tools = excluded.tools,
           tool_choice = excluded.tool_choice, examples = excluded.examples, parameters = excluded.parameters, max_steps = excluded.max_steps,
           max_tokens = excluded.max_tokens, max_cost = excluded.max_cost,
           max_seconds = excluded.max_seconds, max_attempts = excluded.max_attempts;
    insert into agent.attachment (name, agent, relation, ops, condition, columns, writes, bind, approve,
                                  run_as, query_as, ordering_key, debounce, cap, backfill, server_filter, max_depth)
    values (_name, _name, attach.target, attach.ops, attach.condition, attach.columns, attach.writes, attach.bind,
            attach.approve, attach.run_as, attach.query_as, attach.ordering_key, attach.debounce, attach.cap, attach.backfill, attach.server_filter, attach.max_depth)
    returning id into _id;
    return _id;
exception when others then
    -- Raised again from here: psql would print every function on the way.
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

-- Attach an agent by a spec: agent.attach('tickets', 'model=gpt-4o, system_prompt="...", tools=[a, b]').
--
-- Raises WA010 (spec), WA011 (tool), WA012 (condition), WA013 (table, column, name), WA014 (model).
create function agent.attach(target text, spec text)
    returns bigint
    language plpgsql
as $$
declare
    _known constant text[] := '{model,system_prompt,tools,name,on,when,columns,writes,bind,approve,run_as,query_as,ordering_key,'
        'debounce,cap,backfill,server_filter,tool_choice,max_depth,max_steps,max_tokens,max_cost,max_seconds,max_attempts}';
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
        raise exception 'there is no table "%"', target
            using errcode = 'WA013',
                  hint = agent_internal.suggest(target, (select array_agg(relname::text) from pg_catalog.pg_class
                                                 where relkind in ('r', 'p') and pg_table_is_visible(oid)
                                                   and relnamespace <> 'pg_catalog'::regnamespace));
    end if;
    for _key in select jsonb_object_keys(_spec) loop
        if _key <> all (_known) then
            raise exception 'spec: there is no key "%"', _key using errcode = 'WA010', hint = agent_internal.suggest(_key, _known);
        elsif jsonb_typeof(_spec -> _key) = 'array' and _key <> all (_lists) then
            raise exception 'spec: "%" takes one value, not a list', _key using errcode = 'WA010';
        elsif jsonb_typeof(_spec -> _key) = 'string' and _key = any (_lists) then
            _spec := _spec || jsonb_build_object(_key, jsonb_build_array(_spec -> _key));
        end if;
    end loop;
    if not _spec ? 'model' then
        raise exception 'spec: "model" is missing' using errcode = 'WA010', hint = 'model=gpt-4o, for instance';
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
        max_attempts  => agent_internal.spec_cast(_spec, 'max_attempts', 'integer', '5')::integer);
exception when others then
    -- Raised again from here: psql would print every function on the way.
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
comment on function agent.attach(text, text) is 'Attach an agent to a table: agent.attach(''tickets'', ''model=gpt-4o, system_prompt="...", tools=[a, b]'')';

-- The argument may be an attachment's name or a table's: all attachments of the table go then.
create function agent.detach(_target text)
    returns integer
    language plpgsql
as $$
declare
    _count integer;
begin
    delete from agent.attachment where name = _target;
    get diagnostics _count = row_count;
    if _count = 0 and to_regclass(_target) is not null then
        delete from agent.attachment where relation = to_regclass(_target);
        get diagnostics _count = row_count;
    end if;
    if _count = 0 then
        raise exception 'nothing is attached under the name "%", nor to a table of that name', _target
            using errcode = 'WA013', hint = agent_internal.suggest(_target, (select array_agg(name) from agent.attachment));
    end if;
    return _count;
end;
$$;
comment on function agent.detach(text) is 'End an attachment, or all attachments of a table; runs that exist go on';

create function agent.pause(_name text, _reason text default null)
    returns void
    language plpgsql
as $$
begin
    update agent.attachment set paused = true, paused_reason = _reason where name = _name;
    if not found then
        raise exception 'there is no attachment "%"', _name
            using errcode = 'WA013', hint = agent_internal.suggest(_name, (select array_agg(name) from agent.attachment));
    end if;
end;
$$;
comment on function agent.pause(text, text) is 'Let an attachment start no more runs; changes are still ingested';

create function agent.resume(_name text)
    returns void
    language plpgsql
as $$
begin
    update agent.attachment set paused = false, paused_reason = null where name = _name;
    if not found then
        raise exception 'there is no attachment "%"', _name
            using errcode = 'WA013', hint = agent_internal.suggest(_name, (select array_agg(name) from agent.attachment));
    end if;
    perform pg_notify('walagent_runs', '');
end;
$$;
comment on function agent.resume(text) is 'Let a paused attachment start runs again, if its table, role and tools still allow it';

-- The daemon's own pause: a credential that nobody accepts, a table that is gone.  It waits for no
-- person's transaction: an attachment that somebody is changing is left alone.
--
-- Returns true when this call paused it, false when it was paused before, else NULL.
create function agent_internal.pause_broken(_attachment_id bigint, _reason text)
    returns boolean
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform from agent.attachment where id = _attachment_id and not paused for no key update skip locked;
    if found then
        update agent.attachment set paused = true, paused_reason = _reason where id = _attachment_id;
        return true;
    end if;
    return (select false from agent.attachment where id = _attachment_id and paused);
end;
$$;
comment on function agent_internal.pause_broken(bigint, text) is 'Pause an attachment none of whose runs can succeed';
