-- Built-in tools that work inside the database: the worker executes them on its own connection, because none of them
-- executes code of others, and records the result in the same transaction.

-- The same, and the thread, within the transaction of a built-in tool: who acts, which no argument can change.  The
-- attachment can belong to another tenant than the run.
create or replace function agent_internal.acting_scope(_run bigint, out tenant text, out agent name, out thread_id uuid)
    language plpgsql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    tenant := agent.current_tenant();
    agent := agent.current_principal();
    select case when r.change ->> 'schema' = 'agent' and r.change ->> 'table' = 'event' then (r.change #>> '{new,thread_id}')::uuid end
      into thread_id from agent.run r where r.id = _run and r.tenant = agent.current_tenant();
    if not found then
        raise exception 'run % is not of tenant "%"', _run, tenant using errcode = 'WA024';
    end if;
end;
$$;

-- Begin the transaction of a built-in tool: fence, origin marker, and the identity of the run's agent.
--
-- Raises as agent_internal.begin_write() does.
create or replace function agent_internal.begin_builtin(_run bigint, _lease bigint)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _scope record;
begin
    perform agent_internal.begin_write(_run, _lease);
    perform agent_internal.limit_lock_waits();
    _scope := agent_internal.scope_of(_run);
    perform agent_internal.assume(_scope.tenant, _scope.agent);
    if agent_internal.name_refusal(_scope.tenant, _scope.agent) is not null then
        raise exception '%', agent_internal.name_refusal(_scope.tenant, _scope.agent) using errcode = 'WA024';
    end if;
end;
$$;
comment on function agent_internal.begin_builtin(bigint, bigint) is 'Begin the transaction of a built-in tool, as the agent of the run';

-- End the identity that agent_internal.begin_builtin() set; what follows is the worker's.
create or replace function agent_internal.end_builtin()
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$ begin perform set_config('walagent.identity', '', true); end; $$;

create or replace function agent_internal.builtin_post_event(_run bigint, _arguments jsonb)
    returns jsonb
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _scope constant record := agent_internal.acting_scope(_run);
    _event agent.event;
begin
    if _scope.thread_id is null then
        raise exception 'this run has no thread to post in' using errcode = 'WA024';
    end if;
    insert into agent.principal (tenant, name, kind) values (_scope.tenant, _scope.agent, 'agent') on conflict do nothing;
    _event := agent_internal.post_event(_scope.tenant, _scope.thread_id, 'text', _scope.agent,
                                        jsonb_build_object('text', _arguments ->> 'text'), _run);
    return jsonb_build_object('number', _event.number);
end;
$$;

-- The same for a built-in tool that works inside the database; NULL: it does not.
create or replace function agent_internal.call_builtin(_turn agent.run, _tool jsonb, _call_id text, _arguments jsonb)
    returns jsonb
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _identity constant text := coalesce(current_setting('walagent.identity', true), '');
    _target   constant text := _tool ->> 'target';
    _content  jsonb;
begin
    if _target <> all ('{do_nothing,remember,recall,retrieve,post_event,send_email,send_webhook,propose,vote,task_update,hand_over}') then
        return null;
    end if;
    begin
        if _target <> 'do_nothing' then
            perform agent_internal.begin_builtin(_turn.id, _turn.lease);
        end if;
        _content := jsonb_build_object('is_error', false, 'content', left(case _target
            when 'do_nothing' then 'ok'
            when 'remember' then format('remembered as %s', agent_internal.builtin_remember(_turn.id, _arguments) ->> 'id')
            when 'post_event' then format('posted as event %s', agent_internal.builtin_post_event(_turn.id, _arguments) ->> 'number')
            when 'send_email' then agent_internal.builtin_send(_turn.id, 'email', _arguments)::text
            when 'send_webhook' then agent_internal.builtin_send(_turn.id, 'webhook', _arguments)::text
            when 'recall' then agent_internal.builtin_recall(_turn.id, _arguments)::text
            when 'retrieve' then agent_internal.builtin_retrieve(_turn.id, _arguments)::text
            else agent_internal.builtin_team(_turn.id, _target, _arguments)::text end, 65536));
    exception when others then
        if sqlstate ~ '^(08|40|53|57P|55P03|WA001|WA002|WA004)' then
            raise;
        end if;
        _content := jsonb_build_object('is_error', true, 'sqlstate', sqlstate, 'content', left(format('%s (SQLSTATE %s)', sqlerrm, sqlstate), 4096));
    end;
    perform agent_internal.act_again(_identity);
    _content := _content || jsonb_build_object('call_id', _call_id, 'name', _tool -> 'name');
    perform agent_internal.insert_step(_turn.id, null, 'result', _content);
    return _content;
end;
$$;
