-- Turns: runs in which an agent takes part in a thread.  And what all kinds of runs share.
--
-- Kinds with a run to execute are agent (a change), question, turn (an event of a thread), node (a step of a workflow) and
-- delivery (a message to the outside).  The latter three may have an attachment; each run has a queue.

create or replace function agent_internal.fits_kind(
    _kind text, _reason text, _attachment_id bigint, _attachment_version integer, _principal name, _commit_lsn pg_lsn,
    _ordinal integer, _backfill_key text
)
    returns boolean
    language plpgsql
    immutable
as $$
begin
    return case
        when _kind = 'question' then _attachment_id is null and _principal is not null and _reason = 'question'
        when _kind = 'agent' or _kind in ('turn', 'node', 'delivery') and _attachment_id is not null then
            _attachment_id is not null and _attachment_version is not null
            and case _reason
                when 'change' then _commit_lsn is not null and _ordinal is not null
                when 'backfill' then _backfill_key is not null
                else _reason = 'manual' or _kind <> 'agent' and _reason <> 'question'
            end
        else _attachment_id is null and _commit_lsn is null and _backfill_key is null
            and _reason not in ('change', 'backfill', 'question')
    end;
end;
$$;

alter table agent_internal.queue
    add column name text,
    drop constraint columns_fit_kind,
    add constraint columns_fit_kind check (case kind
        when 'agent' then attachment_id is not null and session_id is null and name is null
        when 'question' then session_id is not null and attachment_id is null and name is null
        when 'turn' then session_id is null and num_nonnulls(attachment_id, name) = 1
        else session_id is null and num_nonnulls(attachment_id, name) <= 1
    end);
create unique index queue_named on agent_internal.queue (tenant, kind, name) where name is not null;
comment on column agent_internal.queue.name is 'Name among the queues of its kind, if neither an attachment nor a session has it';

-- The queue of a kind under a name in a tenant, which is created on first use.
create function agent_internal.queue_of(_kind text, _name text, _tenant text default agent.current_tenant())
    returns bigint
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _id bigint;
begin
    select q.id into _id from agent_internal.queue q where q.tenant = _tenant and q.kind = _kind and q.name = _name;
    if not found then
        insert into agent_internal.queue as q (tenant, kind, name) values (_tenant, _kind, _name)
        on conflict (tenant, kind, name) where name is not null do update set name = q.name
        returning q.id into _id;
    end if;
    return _id;
end;
$$;
comment on function agent_internal.queue_of(text, text, text) is 'The queue of a kind under a name in a tenant';
revoke all on function agent_internal.queue_of(text, text, text) from public;

-- Agents in threads.  An agent takes part in a thread by being a member of it.  What wakes it is one attachment of the
-- agent on agent.event, for all its threads.

alter table agent.attachment add column turns jsonb check (jsonb_typeof(turns) = 'object');
comment on column agent.attachment.turns is 'How its agent takes part in threads, an object: wake_function, context, template, format, max_context_tokens; NULL: it acts on the rows of a table';

-- The fields of such an attachment that follow from its relation; the rest is checked.
create function agent_internal.checked_turns(_new agent.attachment)
    returns agent.attachment
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _known constant text[] := '{wake_function,context,template,format,max_context_tokens,worker,lease_seconds}';
    _key text;
    _of  text;
begin
    if _new.ops <> '{insert}' or _new.backfill or _new.writes <> '{}' then
        raise exception 'events are only inserted: cannot attach to agent.event with other operations, backfill or writes'
            using errcode = 'WA013';
    elsif exists (select from agent.attachment a where a.tenant = _new.tenant and a.relation = _new.relation and a.agent = _new.agent and a.id <> _new.id) then
        raise exception 'agent "%" is attached to threads already', _new.agent
            using errcode = 'WA013', detail = 'One attachment serves all threads of an agent.';
    end if;
    _new.ordering_key := '{thread_id}';
    _new.turns := coalesce(_new.turns, '{}');
    for _key in select jsonb_object_keys(_new.turns) loop
        if _key <> all (_known) then
            raise exception 'invalid key "%" in turns', _key using errcode = 'WA013', hint = agent_internal.suggest(_key, _known);
        end if;
    end loop;
    if coalesce(_new.turns ->> 'format', 'json') <> all ('{json,burn}') then
        raise exception 'invalid format "%": expected json or burn', _new.turns ->> 'format' using errcode = 'WA013';
    end if;
    if jsonb_typeof(_new.turns -> 'max_context_tokens') is distinct from 'number' and _new.turns ? 'max_context_tokens' then
        raise exception 'max_context_tokens must be a number' using errcode = 'WA013';
    end if;
    if _new.turns ? 'template' and (_new.turns ? 'context' or jsonb_typeof(_new.turns -> 'template') <> 'string') then
        raise exception 'template must be a text, and there can be no context beside it' using errcode = 'WA013';
    end if;
    foreach _of in array '{wake_function,context}'::text[] loop
        if _new.turns ->> _of !~ '^(sql:|python:[A-Za-z_][A-Za-z0-9_.]*[.][A-Za-z_][A-Za-z0-9_]*$)' then
            raise exception '%: invalid function "%"', _of, _new.turns ->> _of
                using errcode = 'WA013', hint = 'Expected sql:function or python:module.function.';
        end if;
        if _new.turns ->> _of ~ '^sql:' then
            _new.turns := _new.turns || jsonb_build_object(
                _of, 'sql:' || agent_internal.turn_function(substr(_new.turns ->> _of, 5), _of, _new.run_as, _new.search_path));
        end if;
    end loop;
    return _new;
end;
$$;

-- The qualified name of a function that decides whether a turn starts, or renders its context: f(thread uuid, seen bigint).
create function agent_internal.turn_function(_name text, _use text, _run_as name, _path text)
    returns text
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _oid  oid;
    _type regtype := case _use when 'context' then 'text' else 'boolean' end;
begin
    perform set_config('search_path', concat_ws(', ', 'pg_catalog', nullif(_path, ''), 'pg_temp'), true);
    _oid := to_regprocedure(_name || '(uuid, bigint)');
    perform set_config('search_path', 'pg_catalog, pg_temp', true);
    if _oid is null then
        raise exception '%: function %(uuid, bigint) does not exist', _use, _name using errcode = 'WA013',
            hint = 'It gets the thread and the number of the event that the agent has seen last.';
    elsif (select p.prorettype from pg_proc p where p.oid = _oid) <> _type then
        raise exception '%: function % must return %', _use, _name, _type using errcode = 'WA013';
    elsif not has_function_privilege(_run_as, _oid, 'execute') then
        raise exception 'role "%" lacks EXECUTE on function %', _run_as, _name using errcode = '42501';
    end if;
    return (select format('%I.%I', n.nspname, p.proname) from pg_proc p join pg_namespace n on n.oid = p.pronamespace where p.oid = _oid);
end;
$$;

create or replace function agent_internal.check_relation(_relation regclass, _ops text[])
    returns void
    language plpgsql
    stable
as $$
declare
    _c   pg_catalog.pg_class;
    _kin regclass;
begin
    select * into _c from pg_catalog.pg_class where oid = _relation;
    if _c.oid is null then
        raise exception 'table with OID % does not exist', _relation::oid::bigint using errcode = 'WA013';
    elsif _c.relkind not in ('r', 'p') then
        raise exception '% is not a table', _relation
            using errcode = 'WA013', detail = 'Only the rows of tables are written to the WAL.';
    elsif _c.relpersistence <> 'p' then
        raise exception '% is % and not written to the WAL', _relation,
            case _c.relpersistence when 'u' then 'unlogged' else 'temporary' end using errcode = 'WA013';
    elsif _relation = 'agent.event'::regclass then
        return;  -- the one table of ours that agents attach to
    elsif _c.relnamespace in ('agent'::regnamespace, 'agent_internal'::regnamespace, 'pg_catalog'::regnamespace) then
        raise exception 'cannot attach to system table %', _relation using errcode = 'WA013';
    end if;
    select a.relation into _kin
      from agent.attachment a
     where a.relation <> _relation
       and (a.relation in (select relid from pg_partition_ancestors(_relation) p (relid))
            or _relation in (select relid from pg_partition_ancestors(a.relation) p (relid)));
    if found then
        raise exception 'cannot attach to a partition and its parent: % is attached', _kin
            using errcode = 'WA013', hint = 'Attach to the parent alone, with a condition.';
    end if;
    if _ops = '{insert}' then
        return;
    end if;
    -- All operations but insert are published together, also for truncate alone.
    if _c.relreplident = 'n'
       or _c.relreplident = 'd' and agent_internal.key_columns(_relation) = '{}'
       or _c.relreplident = 'i' and not exists (select from pg_catalog.pg_index where indrelid = _relation and indisreplident) then
        raise exception '% has no replica identity', _relation
            using errcode = 'WA013', detail = 'Once its updates are published, UPDATE and DELETE of the application would fail.',
                  hint = format('alter table %s add primary key (...), or: alter table %s replica identity full', _relation, _relation);
    end if;
    if _c.relreplident = 'f' and exists (select from pg_catalog.pg_attribute
                                          where attrelid = _relation and attgenerated = 'v' and not attisdropped) then
        raise exception '% has replica identity full and a virtual generated column', _relation
            using errcode = 'WA013', detail = 'Once it is published, UPDATE of the application would fail.',
                  hint = 'Make the column stored, or use the primary key as replica identity.';
    end if;
end;
$$;

-- The queue of an attachment; see 0011_attach.sql.
create or replace function agent_internal.sync_queue()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    insert into agent_internal.queue (id, kind, attachment_id, cap, paused)
    select id, case when turns ? 'worker' then 'worker'  -- 0056_own_worker.sql
                    when relation = 'agent.event'::regclass then 'turn' else 'agent' end, id, cap, paused
      from agent.attachment where id = new.id
    on conflict (id) do update set kind = excluded.kind, cap = excluded.cap, paused = excluded.paused, queued = true;
    return null;
end;
$$;

-- An agent that is attached to threads is a principal, so that it can be a member.
create function agent_internal.keep_agent_principal()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    insert into agent.principal (tenant, name, kind)
    values (new.tenant, new.agent, 'agent')
    on conflict do nothing;
    return null;
end;
$$;
create trigger keep_agent_principal
    after insert or update of agent, relation on agent.attachment
    for each row when (new.turns is not null) execute function agent_internal.keep_agent_principal();

-- Let an agent take part in the threads that it is a member of.
--
-- Args: wake: a condition over `new`, an event: the agent is woken if it holds for one of the events that it has not seen.
--   NULL: a text of somebody who is not an agent.
-- wake_function: then asked, when the turn starts: sql:f for a function f(thread uuid, seen bigint) returning boolean;
--   python:module.f for one in Python, of a module of tools.modules.
-- context: renders what the model is shown: sql:f for a function f(thread uuid, seen bigint) returning text;
--   python:module.f; NULL: by format.
-- template: instead of context: a Jinja template over thread, agent, summary, members, events and facts.
-- format: json: events as lines of JSON in a data block; burn: XML tags around YAML.
-- max_context_tokens: older events are left out, and summarized if the thread has a summary.
create function agent.attach_to_threads(
    agent text, wake text default null, wake_function text default null, context text default null, format text default 'json',
    max_context_tokens integer default null, name text default null, bind jsonb default '{}', approve text[] default '{}',
    debounce interval default null, cap integer default null, run_as name default current_user, template text default null
)
    returns bigint
    language plpgsql
as $$
declare
    _id bigint;
begin
    if not exists (select from agent.agent a where a.tenant = agent.current_tenant() and a.name = attach_to_threads.agent) then
        raise exception 'agent "%" does not exist', attach_to_threads.agent
            using errcode = 'WA013', hint = agent_internal.suggest(attach_to_threads.agent, (select array_agg(a.name) from agent.agent a where a.tenant = agent.current_tenant()));
    end if;
    insert into agent.attachment (name, agent, relation, condition, bind, approve, debounce, cap, run_as, turns)
    values (coalesce(attach_to_threads.name, attach_to_threads.agent), attach_to_threads.agent, 'agent.event'::regclass,
            attach_to_threads.wake, attach_to_threads.bind, attach_to_threads.approve, attach_to_threads.debounce,
            attach_to_threads.cap, attach_to_threads.run_as,
            jsonb_strip_nulls(jsonb_build_object(
                'wake_function', attach_to_threads.wake_function, 'context', attach_to_threads.context,
                'template', attach_to_threads.template,
                'format', attach_to_threads.format, 'max_context_tokens', attach_to_threads.max_context_tokens)))
    returning id into _id;
    return _id;
end;
$$;
comment on function agent.attach_to_threads(text, text, text, text, text, integer, text, jsonb, text[], interval, integer, name, text)
    is 'Let an agent take part in the threads that it is a member of';

-- From events to turns.

alter type agent.new_run add attribute kind text, add attribute principal name, add attribute delay double precision;

-- The agents among the members of the threads of events; NULL: the event is not visible yet, or its thread is gone.
--
-- The cost is that of the members of these threads, however many threads and agents there are.
--
-- Args: _events: [[n, tenant, thread, number], ...].
--
-- Returns: pinned: {agent: [attachment, version]} of those that have taken a turn in the thread.
--
-- Each lookup is by a primary key: the planner could otherwise begin with all agents of the tenant, or with all events.
create function agent_internal.agents_of_events(_events jsonb)
    returns table (n integer, agents name[], pinned jsonb, by_agent boolean)
    language plpgsql
    stable
    set enable_seqscan = off
as $$
declare
    _place jsonb;
    _event record;
begin
    for _place in select x from jsonb_array_elements(_events) x loop
        select e.tenant, e.thread_id, e.author into _event
          from agent.event e
         where e.tenant = _place ->> 1 and e.thread_id = (_place ->> 2)::uuid and e.number = (_place ->> 3)::bigint;
        continue when not found;
        n := (_place ->> 0)::integer;
        select array_agg(m.principal),
               jsonb_object_agg(m.principal, jsonb_build_array(m.attachment_id, m.attachment_version)) filter (where m.attachment_version is not null)
          into agents, pinned
          from agent.member m
         where m.tenant = _event.tenant and m.thread_id = _event.thread_id
           and (select p.kind = 'agent' and p.active from agent.principal p
                 where p.tenant = m.tenant and p.name = m.principal);
        by_agent := (select p.kind = 'agent' from agent.principal p where p.tenant = _event.tenant and p.name = _event.author);
        return next;
    end loop;
end;
$$;
comment on function agent_internal.agents_of_events(jsonb) is 'The agents in the threads of events';

-- Whether a turn that has not started is in the queue already.  It is rendered when it starts, so it shows this event, too.
create function agent_internal.is_absorbed(_queue bigint, _ordering_key text)
    returns boolean
    language sql
    stable
as $$
    select exists (select from agent.run p
                    where p.queue_id = _queue and p.ordering_key = _ordering_key and p.state = 'pending'
                      and not exists (select from agent.step s where s.run_id = p.id))
$$;
comment on function agent_internal.is_absorbed(bigint, text) is 'Whether a turn that has not started waits for its claim';

create or replace function agent_internal.insert_runs(_generation integer, _runs jsonb)
    returns bigint
    language plpgsql
as $$
declare
    _count bigint;
begin
    insert into agent.run (tenant, kind, principal, not_before, queue_id, attachment_id, attachment_version, generation, commit_lsn, ordinal,
                           committed_at, change, key, ordering_key, max_attempts, cause_run, depth, state, error, finished_at)
    select coalesce(n.tenant, agent.current_tenant()), coalesce(n.kind, 'agent'), n.principal, agent_internal.now() + make_interval(secs => n.delay),
           n.attachment_id, n.attachment_id, n.attachment_version, _generation, n.commit_lsn, n.ordinal, n.committed_at,
           n.change, n.key, n.ordering_key, n.max_attempts, n.cause_run, coalesce(n.depth, 0),
           coalesce(n.state, 'pending'), n.error,
           case when agent_internal.is_final(n.state) then agent_internal.now() end
      from jsonb_populate_recordset(null::agent.new_run, _runs) n
     where n.kind is null or not agent_internal.is_absorbed(n.attachment_id, n.ordering_key)
     order by n.commit_lsn, n.ordinal
    on conflict on constraint run_once_per_change do nothing;  -- planted: no-unique-key/insert
    get diagnostics _count = row_count;
    return _count;
end;
$$;
alter function agent_internal.insert_runs(integer, jsonb) set enable_seqscan = off;  -- see 0035_plans.sql

-- The turn.

-- What a turn is decided and rendered from: the thread, its members, its events and its facts, as of now.
--
-- Args: _bytes: up to this size, the latest events fit: those after the summary, and those that the agent has not seen.  A
--   large one counts as half of it, as it is cut when it is shown.  Events that the agent has not seen and instructions are
--   returned in any case.
create function agent_internal.look_turn(_run bigint, _bytes bigint)
    returns jsonb
    language plpgsql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _turn   agent.run;
    _thread agent.thread;
    _me     agent.member;
begin
    perform agent_internal.check_holder(_run);
    select * into _turn from agent.run r where r.id = _run;
    select * into _thread from agent.thread t
     where t.tenant = _turn.change #>> '{new,tenant}' and t.id = (_turn.change #>> '{new,thread_id}')::uuid;
    select * into _me from agent.member m
     where m.tenant = _thread.tenant and m.thread_id = _thread.id and m.principal = _turn.principal;
    return jsonb_build_object(
        'thread', to_jsonb(_thread) - 'created_at',
        'agent', _turn.principal, 'role', _me.role, 'seen', _me.seen,
        'members', (select jsonb_agg(jsonb_build_object('name', p.name, 'id', p.id, 'kind', p.kind, 'display_name', p.display_name, 'role', m.role)
                                     order by m.joined_at, p.name)
                      from agent.member m join agent.principal p on p.tenant = m.tenant and p.name = m.principal
                     where m.tenant = _thread.tenant and m.thread_id = _thread.id),
        'facts', (select jsonb_agg(jsonb_build_object('id', f.id, 'subject', f.subject, 'predicate', f.predicate, 'object', f.object,
                                                      'category', f.category, 'confidence', f.confidence, 'disputed', f.disputed)
                                   order by f.created_at, f.id)
                    from agent.fact f
                   where f.tenant = _thread.tenant and f.thread_id = _thread.id and f.superseded_by is null and f.retracted_at is null),
        'events', (select jsonb_agg(jsonb_build_object(
                               'number', x.number, 'id', x.id, 'type', x.type, 'author', p.name, 'author_id', p.id, 'author_kind', p.kind,
                               'data', x.data, 'run_id', x.run_id, 'created_at', x.created_at, 'fits', x.fits) order by x.number)
                     from (select e.*, e.number = _thread.last_number
                                       or sum(least(octet_length(e.data::text) + 100, _bytes / 2)) over (order by e.number desc) <= _bytes as fits
                             from (select * from agent.event e
                                    where e.tenant = _thread.tenant and e.thread_id = _thread.id
                                      and e.number > least(_thread.summary_upto, _me.seen)
                                    order by e.number desc limit 2000) e
                           union all
                           select e.*, false from agent.event e  -- instructions hold, however long ago they were given
                            where e.tenant = _thread.tenant and e.thread_id = _thread.id and e.type = 'system'
                              and e.number <= least(_thread.summary_upto, _me.seen)) x
                          join agent.principal p on p.tenant = x.tenant and p.name = x.author
                    where x.fits or x.number > _me.seen or x.data ->> 'action' = 'injected'));
end;
$$;
comment on function agent_internal.look_turn(bigint, bigint) is 'What a turn is decided and rendered from';

-- Begin a turn: count it, and record as its first step what the model is shown.
--
-- Locks the run, then the thread.
--
-- Returns NULL, or why the turn does not take place; `paused`: the run waits until the thread is resumed.
create function agent_internal.begin_turn(_run bigint, _lease bigint, _content jsonb)
    returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.fence(_run, _lease);
    return agent_internal.admit_turn(_run, _content);
end;
$$;
comment on function agent_internal.begin_turn(bigint, bigint, jsonb) is 'Begin a turn, with what the model is shown as its first step';

-- The same for a caller that has locked the run.
create function agent_internal.admit_turn(_run bigint, _content jsonb)
    returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _turn   agent.run;
    _thread agent.thread;
begin
    select * into _turn from agent.run r where r.id = _run;
    select * into _thread from agent.thread t
     where t.tenant = _turn.change #>> '{new,tenant}' and t.id = (_turn.change #>> '{new,thread_id}')::uuid
       for no key update;
    if not exists (select from agent.member m
                    where m.tenant = _thread.tenant and m.thread_id = _thread.id and m.principal = _turn.principal) then
        return format('agent "%s" is not a member of the thread', _turn.principal);
    elsif _thread.state = 'paused' then
        update agent.run
           set state = 'pending', lease_expires_at = null, not_before = '9999-12-31 UTC', attempt = greatest(0, attempt - 1)
         where id = _run;
        return 'paused';
    elsif _thread.state = 'archived' then
        return 'the thread is archived';
    elsif _thread.agent_turns >= _thread.max_agent_turns then
        return format('agents took %s turns since the last message of a person (max_agent_turns)', _thread.agent_turns);
    end if;
    update agent.thread set agent_turns = agent_turns + 1 where tenant = _thread.tenant and id = _thread.id;
    update agent.member m set attachment_id = _turn.attachment_id, attachment_version = _turn.attachment_version
     where m.tenant = _thread.tenant and m.thread_id = _thread.id and m.principal = _turn.principal
       and (m.attachment_version is null or m.attachment_id <> _turn.attachment_id);
    perform agent_internal.insert_step(_run, 0, 'note', _content);
    return null;
end;
$$;

-- Let an agent use its newest version, from its next turn on, in a thread, or in all that the caller sees.
--
-- Returns: the number of threads.
create function agent.use_newest_version(agent name, thread uuid default null)
    returns bigint
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _count bigint;
begin
    if not agent.has_role('developer') then
        raise exception 'principal "%" may not choose versions of agents', agent.current_principal()
            using errcode = '42501', hint = 'A principal needs the role developer.';
    end if;
    update agent.member m set attachment_id = null, attachment_version = null
     where m.tenant = agent.current_tenant() and m.principal = use_newest_version.agent
       and m.thread_id = coalesce(use_newest_version.thread, m.thread_id) and m.attachment_version is not null;
    get diagnostics _count = row_count;
    return _count;
end;
$$;
comment on function agent.use_newest_version(name, uuid) is 'Let an agent use its newest version in a thread, or in all';

-- What follows from the end of a turn, in the transaction that ends its run: its answer, and what it has seen.
--
-- Args: _bytes: beyond this size of events, older ones are to be summarized, which is a run of its own.
-- Raises WA002 if the agent has left the thread.
create function agent_internal.end_turn(_run bigint, _text text, _seen bigint, _bytes bigint default null)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _turn   agent.run;
    _what   text;
    _thread uuid;
begin
    select * into _turn from agent.run r where r.id = _run;
    _thread := (_turn.change #>> '{new,thread_id}')::uuid;
    if _text is not null then
        _what := format('%s %s %s', _turn.id, _turn.attachment_id, _turn.depth);
        perform pg_logical_emit_message(true, 'walagent', _what || ' ' || agent_internal.sign_write(_what, pg_current_xact_id()));
        perform agent_internal.post_event(_thread, 'text', _turn.principal, jsonb_build_object('text', _text), _run);
    end if;
    update agent.member m set seen = greatest(m.seen, _seen)
     where m.tenant = _turn.change #>> '{new,tenant}' and m.thread_id = _thread and m.principal = _turn.principal;
    if not found and _text is not null then
        raise exception 'agent "%" has left the thread', _turn.principal using errcode = 'WA002';
    end if;
    if _bytes is not null then
        perform agent_internal.request_summary(_turn, _thread, _bytes);
    end if;
end;
$$;
comment on function agent_internal.end_turn(bigint, text, bigint, bigint) is 'Post the answer of a turn, and record what its agent has seen';

-- Queue a run that summarizes the older events of a thread, if they are too large for a prompt and none is queued.
create function agent_internal.request_summary(_turn agent.run, _thread uuid, _bytes bigint)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _tenant constant text := _turn.change #>> '{new,tenant}';
begin
    if (select coalesce(sum(octet_length(e.data::text) + 100), 0)
          from agent.thread t
               join agent.event e on e.tenant = t.tenant and e.thread_id = t.id and e.number > t.summary_upto
         where t.tenant = _tenant and t.id = _thread) <= _bytes
       or exists (select from agent.run r
                   where r.queue_id = _turn.queue_id and r.ordering_key = 'summary ' || _thread
                     and r.state in ('pending', 'running', 'waiting_approval', 'waiting_retry', 'needs_review')) then
        return;
    end if;
    insert into agent.run (tenant, kind, reason, queue_id, principal, attachment_id, attachment_version, change, key, ordering_key,
                           max_attempts, cause_run)
    values (_turn.tenant, 'turn', 'summary', _turn.queue_id, _turn.principal, _turn.attachment_id, _turn.attachment_version,
            _turn.change, _turn.key, 'summary ' || _thread, _turn.max_attempts, _turn.id);
    perform agent_internal.wake_queues(array[_turn.queue_id]);
end;
$$;
comment on function agent_internal.request_summary(agent.run, uuid, bigint) is 'Queue a run that summarizes older events';

-- What is shown of a text that an owner of the thread has corrected; NULL: nobody has.
create function agent_internal.corrected(_event agent.event)
    returns jsonb
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select _event.data || jsonb_build_object('text', e.data -> 'text')
      from agent.event e
     where e.tenant = _event.tenant and e.thread_id = _event.thread_id and e.type = 'system' and e.number > _event.number
       and e.data ->> 'action' = 'overridden' and e.data ->> 'target' = _event.id::text
     order by e.number desc
     limit 1
$$;
comment on function agent_internal.corrected(agent.event) is 'What is shown of a text that was corrected';

-- What a summary is made from: the summary before, and the events after it but for the latest.
--
-- Args: _bytes: size of the events that a prompt has room for; half of it stays as it is.  Sizes as in look_turn().
create function agent_internal.look_summary(_run bigint, _bytes bigint)
    returns jsonb
    language plpgsql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _look constant jsonb := agent_internal.look_turn(_run, 0);
begin
    return _look || jsonb_build_object('events', (
        select jsonb_agg(jsonb_build_object(
                   'number', x.number, 'id', x.id, 'type', x.type, 'author', p.name, 'author_id', p.id, 'author_kind', p.kind,
                   'data', x.data, 'run_id', x.run_id, 'created_at', x.created_at) order by x.number)
          from (select e.number, e.id, e.type, e.author, e.run_id, e.created_at, e.tenant,
                       case when e.type = 'text' then coalesce(agent_internal.corrected(e), e.data) else e.data end as data,
                       sum(least(octet_length(e.data::text) + 100, _bytes / 2)) over (order by e.number desc) as newer,
                       sum(least(octet_length(e.data::text) + 100, _bytes / 2)) over (order by e.number) as older
                  from agent.event e
                 where e.tenant = _look #>> '{thread,tenant}' and e.thread_id = (_look #>> '{thread,id}')::uuid
                   and e.number > (_look #>> '{thread,summary_upto}')::bigint) x
               join agent.principal p on p.tenant = x.tenant and p.name = x.author
         where x.newer > _bytes / 2 and x.older <= _bytes * 4));
end;
$$;
comment on function agent_internal.look_summary(bigint, bigint) is 'What a summary of a thread is made from';

-- Store a summary, in the transaction that ends its run.  One that covers more is kept.
create function agent_internal.store_summary(_run bigint, _text text, _upto bigint)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    update agent.thread t set summary = _text, summary_upto = _upto
      from agent.run r
     where r.id = _run and t.tenant = r.change #>> '{new,tenant}' and t.id = (r.change #>> '{new,thread_id}')::uuid
       and t.summary_upto < _upto;
end;
$$;
comment on function agent_internal.store_summary(bigint, text, bigint) is 'Store the summary of a thread';

-- Post the call of a tool in a turn, and its result if it says more than that it succeeded, with the step of the result.
-- Facts that the call stored point to the event of the call.
create function agent_internal.post_call()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _turn   agent.run;
    _thread uuid;
    _call   jsonb;
    _event  agent.event;
begin
    select * into _turn from agent.run r where r.id = new.run_id;
    if _turn.kind is distinct from 'turn' or new.content ? 'correction' then
        return null;
    end if;
    _thread := (_turn.change #>> '{new,thread_id}')::uuid;
    select p into _call
      from agent.step s cross join lateral jsonb_array_elements(s.content -> 'parts') p
     where s.run_id = new.run_id and s.kind = 'reply' and p ->> 'call' = new.content ->> 'call_id'
     order by s.seq desc
     limit 1;
    _event := agent_internal.post_event(_thread, 'tool_use', _turn.principal, jsonb_build_object(
        'id', new.content -> 'call_id', 'name', new.content -> 'name', 'input', coalesce(_call -> 'arguments', '{}')), _turn.id);
    if (new.content -> 'is_error')::boolean or new.content ->> 'content' <> all ('{done,ok}') then
        perform agent_internal.post_event(_thread, 'tool_result', _turn.principal, jsonb_build_object(
            'tool_use_id', new.content -> 'call_id', 'tool_name', new.content -> 'name',
            'content', new.content -> 'content', 'is_error', new.content -> 'is_error'), _turn.id);
    end if;
    update agent.fact f set tool_use_event = _event.id
     where f.tenant = _event.tenant and f.thread_id = _thread and f.tool_use_event is null and f.created_at = now();
    return null;
end;
$$;
-- For steps of all runs, no matter who records them.
select agent_internal.keep_rights('agent_internal.post_call()');
create trigger post_call after insert on agent.step for each row when (new.kind = 'result') execute function agent_internal.post_call();

-- Cancel the turns of an agent in a thread, also one that is going on.
create function agent_internal.cancel_turns(_tenant text, _thread uuid, _agent name)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.cancel_run(r.id, format('agent "%s" left the thread', _agent))
       from agent.run r
      where r.queue_id in (select a.id from agent.attachment a where a.agent = _agent and a.relation = 'agent.event'::regclass)
        and r.ordering_key = _thread::text and r.principal = _agent and r.change #>> '{new,tenant}' = _tenant
        and r.state in ('pending', 'running', 'waiting_approval', 'waiting_retry', 'needs_review');
end;
$$;
comment on function agent_internal.cancel_turns(text, uuid, name) is 'Cancel the turns of an agent in a thread';

-- Let the turns of a thread that waited for its resumption be claimed.
create function agent_internal.release_turns(_thread uuid)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _queues bigint[];
begin
    with released as (
        update agent.run r set not_before = null
         where r.queue_id in (select a.id from agent.attachment a where a.relation = 'agent.event'::regclass)
           and r.ordering_key = _thread::text and r.state = 'pending' and r.not_before = '9999-12-31 UTC'
        returning r.queue_id
    )
    select array_agg(distinct queue_id) into _queues from released;
    if _queues is not null then
        perform agent_internal.wake_queues(_queues);
    end if;
end;
$$;
comment on function agent_internal.release_turns(uuid) is 'Let turns that waited for the resumption of their thread be claimed';

revoke all on all functions in schema agent, agent_internal from public;
select agent_internal.permit('developer',
    'execute on function agent.attach_to_threads(text, text, text, text, text, integer, text, jsonb, text[], interval, integer, name, text), '
    'agent_internal.checked_turns(agent.attachment), agent_internal.turn_function(text, text, name, text)');

-- Facts.  They are stored by people and by tools of agents, in threads that the caller is a member of.

-- Raise WA019 unless a principal is a member of the thread, and the event is one of it.
create function agent_internal.check_fact(_me agent.member, _subject name, _source uuid)
    returns void
    language plpgsql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (select from agent.member m where (m.tenant, m.thread_id, m.principal) = (_me.tenant, _me.thread_id, _subject)) then
        raise exception 'subject "%" is not a member of the thread', _subject using errcode = 'WA019';
    elsif _source is not null and not exists (select from agent.event e
                                               where e.tenant = _me.tenant and e.id = _source and e.thread_id = _me.thread_id) then
        raise exception 'source event % is not in the thread', _source using errcode = 'WA019';
    end if;
end;
$$;
comment on function agent_internal.check_fact(agent.member, name, uuid) is 'Check subject and source of a fact';

-- Store a fact.  If the thread has it already, it becomes as certain as the more certain of both.
create function agent.add_fact(
    thread uuid, subject name, predicate text, object text, category text default 'general', confidence numeric default 0.8,
    source_event uuid default null, disputed boolean default false
)
    returns uuid
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _me constant agent.member := agent_internal.membership(add_fact.thread);
    _id uuid;
begin
    perform agent_internal.check_fact(_me, add_fact.subject, add_fact.source_event);
    if add_fact.confidence is null or add_fact.confidence <= 0 or add_fact.confidence > 1 then
        raise exception 'invalid confidence %: expected above 0 and up to 1', add_fact.confidence using errcode = 'WA019';
    end if;
    perform from agent.thread t where t.tenant = _me.tenant and t.id = _me.thread_id for no key update;
    update agent.fact f
       set confidence = greatest(f.confidence, add_fact.confidence), disputed = f.disputed or add_fact.disputed
     where f.tenant = _me.tenant and f.thread_id = _me.thread_id and f.subject = add_fact.subject
       and (lower(f.predicate), lower(f.object)) = (lower(add_fact.predicate), lower(add_fact.object))
       and f.superseded_by is null and f.retracted_at is null
    returning f.id into _id;
    if found then
        return _id;
    end if;
    insert into agent.fact (tenant, thread_id, subject, predicate, object, category, confidence, disputed, source_event)
    values (_me.tenant, _me.thread_id, add_fact.subject, add_fact.predicate, add_fact.object, add_fact.category,
            add_fact.confidence, add_fact.disputed, add_fact.source_event)
    returning id into _id;
    return _id;
end;
$$;
comment on function agent.add_fact(uuid, name, text, text, text, numeric, uuid, boolean) is 'Store a fact about a member of a thread';

-- A fact of a thread that the caller is a member of, locked; WA019 if it is no longer held.
create function agent_internal.held_fact(_fact uuid)
    returns agent.fact
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _found agent.fact;
begin
    select * into _found from agent.fact f
     where f.tenant = agent.current_tenant() and f.id = _fact and f.superseded_by is null and f.retracted_at is null
       for no key update;
    if not found then
        raise exception 'fact % does not exist, or was corrected or retracted', _fact using errcode = 'WA019';
    end if;
    perform agent_internal.membership(_found.thread_id);
    return _found;
end;
$$;

-- Replace a fact by its correction, which refers to the event that it follows from.
create function agent.correct_fact(fact uuid, object text, source_event uuid default null, confidence numeric default null)
    returns uuid
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _old constant agent.fact := agent_internal.held_fact(correct_fact.fact);
    _id  uuid;
begin
    if lower(_old.object) = lower(correct_fact.object) then
        return _old.id;
    end if;
    _id := agent.add_fact(_old.thread_id, _old.subject, _old.predicate, correct_fact.object, _old.category,
                          coalesce(correct_fact.confidence, _old.confidence), correct_fact.source_event);
    update agent.fact f set superseded_by = _id where f.tenant = _old.tenant and f.id = _old.id;
    return _id;
end;
$$;
comment on function agent.correct_fact(uuid, text, uuid, numeric) is 'Replace a fact by its correction';

create function agent.retract_fact(fact uuid)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _old constant agent.fact := agent_internal.held_fact(retract_fact.fact);
begin
    update agent.fact f set retracted_at = agent_internal.now() where f.tenant = _old.tenant and f.id = _old.id;
end;
$$;
comment on function agent.retract_fact(uuid) is 'Withdraw a fact after a denial';

create function agent.dispute_fact(fact uuid, disputed boolean default true)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _old constant agent.fact := agent_internal.held_fact(dispute_fact.fact);
begin
    update agent.fact f set disputed = dispute_fact.disputed where f.tenant = _old.tenant and f.id = _old.id;
end;
$$;
comment on function agent.dispute_fact(uuid, boolean) is 'Mark a fact as contradicted, or no longer so';

revoke all on all functions in schema agent, agent_internal from public;
select agent_internal.permit('developer', 'execute on function agent.use_newest_version(name, uuid)');
select agent_internal.permit('member',
    'execute on function agent.add_fact(uuid, name, text, text, text, numeric, uuid, boolean), '
    'agent.correct_fact(uuid, text, uuid, numeric), agent.retract_fact(uuid), agent.dispute_fact(uuid, boolean)');
