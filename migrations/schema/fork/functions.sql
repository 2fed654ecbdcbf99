-- Go on from a step of a run that has ended, in a run of its own.
--
-- The steps before are copied and marked as kept: the model is shown them, their effects are those of the other run, and
-- they cost nothing.  What follows is decided, written and counted as in any run.

-- The first step that a fork does not keep: the reply itself, or the first step of the call that *_step* belongs to.
--
-- Args: _call: the call, of the steps of a call; NULL: of a reply.  _reply: the step that made it.
-- Raises WA003 if the run has no such step, or one that nothing can go on from.
create or replace function agent_internal.fork_point(_run bigint, _step integer, out cut integer, out call text, out reply integer)
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _at   agent.step;
    _last integer;
begin
    select * into _at from agent.step s where s.run_id = _run and s.seq = _step;
    if not found then
        select max(s.seq) into _last from agent.step s where s.run_id = _run;
        raise exception 'run % has no step %', _run, coalesce(_step::text, 'NULL') using errcode = 'WA003',
            hint = case when _last is null then 'It has no steps. Retry it.' else format('It has the steps 0 to %s.', _last) end;
    elsif _at.kind = 'reply' then
        cut := _step;
        reply := _step;
        return;
    elsif _at.kind not in ('intent', 'result', 'approval', 'decision') then
        raise exception 'step % of run % is of kind "%", from which no run can go on', _step, _run, _at.kind using errcode = 'WA003',
            hint = 'Name a reply of the model, or a step of a call.';
    end if;
    call := _at.content ->> 'call_id';
    select max(s.seq) into reply from agent.step s where s.run_id = _run and s.seq < _step and s.kind = 'reply';
    select min(s.seq) into cut from agent.step s where s.run_id = _run and s.seq > reply and s.content ->> 'call_id' = call;
    if cut is null then
        raise exception 'step % of run % belongs to no reply of the model', _step, _run using errcode = 'WA003';
    end if;
end;
$$;
comment on function agent_internal.fork_point(bigint, integer) is 'The first step that a fork does not keep';

-- Raise 22023 if a call that a person writes cannot be made: the rest of the schema is checked when it is.
create or replace function agent_internal.check_written(_definition jsonb, _name text, _arguments jsonb)
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _tool  jsonb;
    _wrong text;
begin
    select t into _tool from jsonb_array_elements(_definition -> 'tools') t where t ->> 'name' = _name limit 1;
    if not found then
        raise exception 'there is no tool "%"', _name using errcode = '22023',
            hint = format('The tools are: %s.', coalesce((select string_agg(t ->> 'name', ', ' order by t ->> 'name')
                                                           from jsonb_array_elements(_definition -> 'tools') t), 'none'));
    end if;
    _wrong := coalesce(agent_internal.wrong_arguments(_tool, _arguments),
                       (select format('%s has no argument "%s"', _name, k) from jsonb_object_keys(_arguments) k
                         where _tool -> 'bind' ? k limit 1));
    if _wrong is not null then
        raise exception '%', _wrong using errcode = '22023';
    end if;
end;
$$;
comment on function agent_internal.check_written(jsonb, text, jsonb) is 'Raise if a call that a person writes cannot be made';

-- The parts of a reply that a person writes: a text, or an object with text and calls of tools of the definition.
--
-- Raises 22023 if it is neither, or names a tool that the agent does not have.
create or replace function agent_internal.written_parts(_reply jsonb, _step integer, _definition jsonb)
    returns jsonb
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _text  constant jsonb := case jsonb_typeof(_reply) when 'string' then _reply when 'object' then _reply -> 'text' end;
    _calls constant jsonb := case jsonb_typeof(_reply) when 'object' then coalesce(_reply -> 'calls', '[]') else '[]' end;
begin
    if jsonb_typeof(_reply) = 'object' then
        perform agent_internal.check_keys('reply', _reply, '{text,calls}');
    end if;
    if jsonb_typeof(_reply) not in ('string', 'object') or coalesce(jsonb_typeof(_text), 'string') <> 'string'
       or jsonb_typeof(_calls) <> 'array'
       or exists (select from jsonb_array_elements(case jsonb_typeof(_calls) when 'array' then _calls else '[]' end) c
                   where jsonb_typeof(c) <> 'object' or jsonb_typeof(c -> 'name') is distinct from 'string'
                      or jsonb_typeof(c -> 'arguments') is distinct from 'object' or c - '{name,arguments}'::text[] <> '{}')
       or coalesce(_text #>> '{}', '') = '' and _calls = '[]' then
        raise exception 'the reply must be a text, or an object with text and calls, each with a name and arguments'
            using errcode = '22023', hint = 'Example: {"text": "", "calls": [{"name": "update_row", "arguments": {"status": "closed"}}]}';
    end if;
    perform agent_internal.check_written(_definition, c ->> 'name', c -> 'arguments') from jsonb_array_elements(_calls) c;
    return case when coalesce(_text #>> '{}', '') <> '' then jsonb_build_array(jsonb_build_object('text', _text)) else '[]' end
        || coalesce((select jsonb_agg(jsonb_build_object('call', format('person_%s_%s', _step, n), 'name', c -> 'name',
                                                         'arguments', c -> 'arguments') order by n)
                       from jsonb_array_elements(_calls) with ordinality x (c, n)), '[]');
end;
$$;
comment on function agent_internal.written_parts(jsonb, integer, jsonb) is 'The parts of a reply that a person writes';

-- Raise 42501 unless the caller could attach an agent that acts as a role: to change its prompt or its calls is no less.
create or replace function agent_internal.check_fork_author(_run_as name)
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.check_role('developer');
    if not (agent_internal.identity()).named and not has_column_privilege(session_user, 'agent.attachment', 'name', 'insert') then
        raise exception 'role "%" may not change the prompt, a reply or arguments', session_user using errcode = '42501',
            hint = 'It needs agent.grant_developer. A fork without prompt, reply and arguments needs agent.grant_approver alone.';
    elsif not agent_internal.is_operator() and not agent_internal.own_login_may_become(_run_as) then
        raise exception '"%" cannot become role "%", as which the run acts', coalesce(agent.current_principal(), ''), _run_as
            using errcode = '42501', hint = format('Connect as a login that is a member of %I, or as the owner of the schema.', _run_as);
    end if;
end;
$$;
comment on function agent_internal.check_fork_author(name) is 'Raise unless the caller could attach an agent that acts as a role';

-- Begin a run of the same change that has the steps of a run before *step* as its own, and goes on from there.
--
-- Args: step: a reply: the model is asked again; a step of a call: the call is made again, with its approval.
--   prompt: the system prompt of the agent from there on.
--   reply: what is said in place of the model: a text, or {"text": ..., "calls": [{"name": ..., "arguments": {...}}]}.
--   arguments: of the call, in place of those that the model gave.
--   newest_version: go on with the current version of the attachment, as after a retry; otherwise with that of the run.
-- Returns the ID of the new run.
-- Raises WA003 if the run cannot be forked there, 22023 if reply or arguments are no such thing, 42501 if the caller may not.
create or replace function agent.fork(
    run_id bigint, step integer, prompt text default null, reply jsonb default null, arguments jsonb default null,
    newest_version boolean default false
)
    returns bigint
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _run        agent.run;
    _at         record;
    _version    integer;
    _definition jsonb;
    _id         bigint;
    _by         constant name := coalesce(agent.current_principal(), session_user);
    _state   text;
    _message text;
    _detail  text;
    _hint    text;
begin
    perform agent_internal.check_role('approver');
    if fork.prompt = '' then
        raise exception 'the prompt must not be empty' using errcode = '22023', hint = 'Leave it out to keep that of the agent.';
    elsif octet_length(fork.prompt) > 1000000 or octet_length(fork.reply::text) > 1000000 or octet_length(fork.arguments::text) > 1000000 then
        raise exception 'the % has % bytes, expected 1000000 at most',
            case when octet_length(fork.prompt) > 1000000 then 'prompt' when octet_length(fork.reply::text) > 1000000 then 'reply' else 'JSON of arguments' end,
            greatest(octet_length(fork.prompt), octet_length(fork.reply::text), octet_length(fork.arguments::text)) using errcode = '22023';
    end if;
    select * into _run from agent.run r where r.id = fork.run_id for no key update;
    if not found then
        raise exception 'run % does not exist', fork.run_id using errcode = 'WA003',
            hint = 'Old runs are removed with their steps.';
    elsif _run.kind <> 'agent' then
        raise exception 'run % is of kind "%"; only runs of agents can be forked', _run.id, _run.kind using errcode = 'WA003',
            hint = case _run.kind when 'node' then 'Use agent.fork_workflow(run, checkpoint).'
                                  when 'turn' then 'Post in its thread what the agent is to take up.'
                                  when 'question' then 'Ask the question again.' else 'Retry it.' end;
    elsif not agent_internal.is_final(_run.state) then
        raise exception 'run % is %; only runs that have ended can be forked', _run.id, _run.state
            using errcode = 'WA003', hint = 'Cancel it, or wait for its end.';
    elsif _run.state = 'skipped' then
        raise exception 'run % was skipped; nothing of it can be continued', _run.id using errcode = 'WA003';
    elsif not exists (select from agent.attachment a where a.id = _run.attachment_id) then
        raise exception 'run % cannot be forked: its attachment was detached', _run.id using errcode = 'WA003';
    elsif exists (select from agent_internal.merged_change m where m.run_id = _run.id) then
        raise exception 'run % cannot be forked: it has several changes (debounce)', _run.id using errcode = 'WA003';
    end if;
    select v.version, v.definition into _version, _definition
      from agent.attachment a
           join agent.attachment_version v
             on v.attachment_id = a.id and v.version = case when newest_version then a.version else _run.attachment_version end
     where a.id = _run.attachment_id;
    if not found then
        raise exception 'run % cannot be forked: version % of its attachment is gone', _run.id, _run.attachment_version
            using errcode = 'WA003', hint = 'Use newest_version.';
    end if;
    select * into _at from agent_internal.fork_point(_run.id, fork.step);
    if fork.reply is not null and _at.call is not null then
        raise exception 'step % of run % belongs to a call; a reply is given in place of a reply', fork.step, _run.id
            using errcode = '22023', hint = format('The reply is step %s. Use arguments to change the call.', _at.reply);
    elsif fork.arguments is not null and _at.call is null then
        raise exception 'step % of run % is a reply; arguments are those of a call', fork.step, _run.id
            using errcode = '22023', hint = 'Name a step of the call, such as its result.';
    end if;
    if not agent_internal.in_effect(_run.id)
       and exists (select from agent.step s where s.run_id = _run.id and s.seq < _at.cut and s.kind = 'result') then
        raise exception 'what run % did before step % was taken back', _run.id, fork.step using errcode = 'WA003',
            hint = 'The model would read that it is done. Fork it at its first reply.';
    end if;
    if fork.prompt is not null or fork.reply is not null or fork.arguments is not null then
        perform agent_internal.check_fork_author((_definition ->> 'run_as')::name);
    end if;
    if fork.arguments is not null then
        perform agent_internal.check_written(_definition, (
            select p ->> 'name' from agent.step s cross join jsonb_array_elements(s.content -> 'parts') p
             where s.run_id = _run.id and s.seq = _at.reply and p ->> 'call' = _at.call limit 1), fork.arguments);
    end if;
    perform agent_internal.prevent_starts();
    insert into agent.run (tenant, kind, reason, queue_id, principal, attachment_id, attachment_version, change, key, ordering_key,
                           cause_run, fork_of, fork_step, depth, max_attempts, priority)
    values (_run.tenant, _run.kind, 'manual', _run.queue_id, _run.principal, _run.attachment_id, _version,
            case when newest_version then agent_internal.visible_change(_run.change, _definition) else _run.change end,
            _run.key, _run.ordering_key, _run.cause_run, _run.id, fork.step, _run.depth, _run.max_attempts, _run.priority)
    returning id into _id;
    insert into agent.step (tenant, run_id, seq, kind, content, cost)
    select _run.tenant, _id, s.seq, s.kind,
           case when s.seq = _at.reply and fork.arguments is not null
                then agent_internal.with_arguments(s.content, _at.call, fork.arguments) else s.content end
           || '{"kept": true}', case when s.kind = 'reply' or s.cost is not null then 0 end
      from agent.step s
     where s.run_id = _run.id and s.seq < _at.cut  -- planted: kept-step-again
     order by s.seq;
    perform agent_internal.insert_step(_id, null, 'note', jsonb_strip_nulls(jsonb_build_object(
        'fork', jsonb_build_object('run', _run.id, 'step', fork.step), 'by', _by, 'prompt', fork.prompt,
        'call', case when fork.arguments is not null then _at.call end, 'arguments', fork.arguments)));
    if fork.reply is not null then
        perform agent_internal.insert_step(_id, null, 'reply', jsonb_build_object(
            'parts', agent_internal.written_parts(fork.reply, _at.cut, _definition), 'stop', 'end', 'model', '', 'written_by', _by),
            _cost => 0);
    end if;
    perform agent_internal.audit('run.forked', _run.id::text, jsonb_strip_nulls(jsonb_build_object(
        'by_run', _id, 'step', fork.step, 'prompt', nullif(fork.prompt is not null, false), 'reply', nullif(fork.reply is not null, false),
        'arguments', nullif(fork.arguments is not null, false))), _run.tenant);
    perform agent_internal.wake_workers();
    return _id;
exception when others then
    get stacked diagnostics _state = returned_sqlstate, _message = message_text,
                            _detail = pg_exception_detail, _hint = pg_exception_hint;
    _state := agent_internal.raise_again(_state, _message, _detail, _hint);
end;
$$;
comment on function agent.fork(bigint, integer, text, jsonb, jsonb, boolean) is 'Begin a run that goes on from a step of a run that has ended; return its ID';

-- A reply with other arguments of one call.
create or replace function agent_internal.with_arguments(_content jsonb, _call text, _arguments jsonb)
    returns jsonb
    language sql
    immutable
    set search_path = pg_catalog, pg_temp
as $$
    select _content || jsonb_build_object('parts', (
               select jsonb_agg(case when p ->> 'call' = _call then (p - '{raw,problem}'::text[]) || jsonb_build_object('arguments', _arguments)
                                     else p end order by n)
                 from jsonb_array_elements(_content -> 'parts') with ordinality x (p, n)))
$$;
comment on function agent_internal.with_arguments(jsonb, text, jsonb) is 'A reply with other arguments of one call';
