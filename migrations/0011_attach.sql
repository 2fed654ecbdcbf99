-- Attach, change, pause and detach: what follows from a row of agent.attachment or agent.agent.
--
-- These triggers have the rights of the schema's owner, who must own the publications.

-- Store the new version and update the publication, with the rights of the schema's owner.  No other role may execute
-- this function, so it cannot be a trigger of another table.
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
    -- Not to pause: that must not wait for a lock.
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

-- The queue is updated at commit: the transaction of a person can stay open for a long time, and every claim and
-- every ingestion needs the queue.
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

-- Cancel runs that became claimable after their attachment was detached while paused: of changes that committed before
-- and were ingested later, or requeued after a retry or a decision.  No claim serves these queues.
create function agent_internal.cancel_detached()
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _queues constant bigint[] := array(
        select q.id from agent_internal.queue q
         where q.attachment_id is not null and q.paused
           and not exists (select from agent.attachment a where a.id = q.attachment_id));
begin
    if _queues <> '{}' then
        perform agent_internal.cancel_runs(array(
            select r.id from agent.run r
             where r.queue_id = any (_queues) and r.state = 'pending' and r.blocked_by is null and r.not_before is null));
    end if;
end;
$$;
comment on function agent_internal.cancel_detached() is 'Cancel runs that became claimable after their attachment was detached while paused';

-- Cancel runs that are not being executed.  Locked runs are skipped: a claim or a decision has them.
create function agent_internal.cancel_runs(_runs bigint[])
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    with ended as (
        select id from agent.run
         where id = any (_runs) and state in ('pending', 'waiting_retry', 'needs_review')
         order by id for no key update skip locked
    ), cancelled as (
        update agent.run r
           set state = 'cancelled', finished_at = agent_internal.now(), next_attempt_at = null, not_before = null, blocked_by = null,
               error = jsonb_build_object('reason', 'attachment was detached while paused')
          from ended e where r.id = e.id
        returning r.id
    )
    update agent.run b set blocked_by = null from cancelled c where b.blocked_by = c.id and b.id <> all (_runs);
end;
$$;

-- The queue of a detached attachment stays: its runs are executed, also those of changes that committed before and are
-- ingested later.  If the attachment is paused, its runs are cancelled, except those that are being executed or wait for
-- an approval.  agent_internal.prune_rest() removes the queue.
create function agent_internal.detach_queue()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    update agent_internal.queue set paused = old.paused where id = old.id and paused <> old.paused;
    if old.paused then
        perform agent_internal.cancel_runs(array(select r.id from agent.run r where r.queue_id = old.id));
    end if;
    return null;
end;
$$;
create constraint trigger detach_queue
    after delete on agent.attachment
    deferrable initially deferred
    for each row execute function agent_internal.detach_queue();

create function agent_internal.refuse_truncate()
    returns trigger
    language plpgsql
as $$
begin
    raise exception 'cannot truncate agent.attachment'
        using hint = 'Use delete from agent.attachment: it also ends the publication of the tables.';
end;
$$;
create trigger refuse_truncate
    before truncate on agent.attachment
    for each statement execute function agent_internal.refuse_truncate();

-- A change of an agent creates a new version of each of its attachments.
--
-- In a transaction that changes an agent and its attachments, each attachment would be checked against half of the
-- change: a new tool of the agent can need a column that only the new attachment writes.  With the setting
-- walagent.applying = on, as in `walagent apply`, nothing is done here, and the caller creates the versions at the end.
-- A caller that does not only leaves its own attachments unchanged.
create or replace function agent_internal.touch_attachments()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if coalesce(current_setting('walagent.applying', true), '') <> 'on' then
        -- A broken attachment gets its new version when it is resumed.
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
        raise exception 'agent "%" is used by attachment "%", which belongs to role "%"', old.name, _other.name, _other.attached_by
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

-- Parse `key=value, key="quoted, value", key=[a, "b c"]` into a JSON object of strings and arrays of strings.  Quotes
-- and brackets bind more than commas; in double quotes \" \\ \n \t are escapes and "" is a quote.  An unquoted value
-- can contain `=`.
--
-- Raises WA010 with the position and what was expected.
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
            raise exception 'invalid spec: expected a key at character %, found "%"', _at, substr(_spec, _at, 20)
                using errcode = 'WA010', hint = 'Write a spec as: model=gpt-4o, system_prompt="...", tools=[a, b]';
        end if;
        if _out ? _key then
            raise exception 'invalid spec: key "%" is given twice', _key using errcode = 'WA010';
        end if;
        _at := agent_internal.spec_skip(_spec, _at + length(_key));
        if substr(_spec, _at, 1) <> '=' then
            raise exception 'invalid spec: expected = after "%" at character %', _key, _at using errcode = 'WA010';
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
                    raise exception 'invalid spec: list of "%" is not closed with ]', _key using errcode = 'WA010';
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
            raise exception 'invalid spec: expected a comma after the value of "%" at character %, found "%"',
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

-- One value from *_at* on: quoted, or unquoted up to one of *_stops*.
--
-- By regular expressions, not by character: a long prompt would take seconds.
create function agent_internal.spec_value(_spec text, _at integer, _key text, _stops text, out value text, out next integer)
    language plpgsql
    immutable
as $$
begin
    if substr(_spec, _at, 1) = '"' then
        value := substring(substr(_spec, _at) from '^"(?:[^"\\]|\\.|"")*"(?!")');
        if value is null then
            raise exception 'invalid spec: quoted value of "%" at character % is not closed', _key, _at
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
        raise exception 'invalid spec: "%" has no value at character %', _key, _at using errcode = 'WA010';
    end if;
    if value ~ '["\[\]]' then
        raise exception 'unquoted value of "%" contains a quote or bracket: %', _key, value
            using errcode = 'WA010', hint = 'Enclose the whole value in double quotes.';
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
            raise exception 'invalid operation "%" in "on"', _op
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
            raise exception 'invalid element of "bind": expected argument=column, found "%"', _pair using errcode = 'WA010';
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
    raise exception 'invalid value of "%": expected %, found "%"', _key,
        case _type when 'interval' then 'an interval such as 5s or 2 minutes' when 'boolean' then 'true or false' else 'a number' end,
        _spec ->> _key using errcode = 'WA010';
end;
$$;

-- Attach an agent, with named arguments.  Creates or changes the agent that has the name of the attachment.
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
        raise exception 'attachment "%" already exists', _name
            using errcode = 'WA013', hint = format('Use another name, or first run select agent.detach(%L).', _name);
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

comment on function agent.attach(regclass, text, text, text[], text, text[], text, text[], text[], jsonb, text[], name, text[],
    interval, integer, boolean, boolean, jsonb, jsonb, text, integer, integer, bigint, numeric, integer, integer, name)
    is 'Attach an agent to a table, with named arguments';

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
        raise exception 'table "%" does not exist', target
            using errcode = 'WA013',
                  hint = agent_internal.suggest(target, (select array_agg(relname::text) from pg_catalog.pg_class
                                                 where relkind in ('r', 'p') and pg_table_is_visible(oid)
                                                   and relnamespace <> 'pg_catalog'::regnamespace));
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
        max_attempts  => agent_internal.spec_cast(_spec, 'max_attempts', 'integer', '5')::integer);
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

-- The argument is the name of an attachment or a table; with a table, all its attachments are detached.
create function agent.detach(target text)
    returns integer
    language plpgsql
as $$
declare
    _count integer;
begin
    delete from agent.attachment where name = target;
    get diagnostics _count = row_count;
    if _count = 0 and to_regclass(target) is not null then
        delete from agent.attachment where relation = to_regclass(target);
        get diagnostics _count = row_count;
    end if;
    if _count = 0 then
        raise exception 'no attachment or attached table is named "%"', target
            using errcode = 'WA013', hint = agent_internal.suggest(target, (select array_agg(name) from agent.attachment));
    end if;
    return _count;
end;
$$;
comment on function agent.detach(text) is 'Remove an attachment, or all of a table; existing runs continue, unless it is paused: then they are cancelled';

create function agent.pause(name text, reason text default null)
    returns void
    language plpgsql
as $$
begin
    update agent.attachment a set paused = true, paused_reason = pause.reason where a.name = pause.name;
    if not found then
        raise exception 'attachment "%" does not exist', pause.name
            using errcode = 'WA013', hint = agent_internal.suggest(pause.name, (select array_agg(a.name) from agent.attachment a));
    end if;
end;
$$;
comment on function agent.pause(text, text) is 'Stop an attachment from starting runs; changes are still ingested';

create function agent.resume(name text)
    returns void
    language plpgsql
as $$
begin
    update agent.attachment a set paused = false, paused_reason = null where a.name = resume.name;
    if not found then
        raise exception 'attachment "%" does not exist', resume.name
            using errcode = 'WA013', hint = agent_internal.suggest(resume.name, (select array_agg(a.name) from agent.attachment a));
    end if;
    perform pg_notify('walagent_runs', '');
end;
$$;
comment on function agent.resume(text) is 'Resume a paused attachment, after a check of its table, roles and tools';

-- Pause an attachment none of whose runs can succeed: its credential is rejected, or its table was dropped.  An
-- attachment that another transaction is changing is skipped.
--
-- Returns true if this call paused it, false if it was paused before, otherwise NULL.
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
