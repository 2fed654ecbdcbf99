-- Insert a run of a version.
--
-- Args: _from: where it begins: {"node", "state", "frames", "run", "checkpoint"}; NULL: at the entry.
create or replace function agent_internal.insert_workflow_run(_of agent.workflow_version, _input jsonb, _from jsonb)
    returns bigint
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _queue constant bigint := agent_internal.queue_of('node', _of.tenant);
    _as    constant agent.attachment := agent_internal.executing_as(_of.run_as, _of.search_path);
    _run   bigint;
begin
    if not agent.has_role('developer') then
        raise exception 'principal "%" may not start workflows', agent.current_principal()
            using errcode = '42501', hint = 'A principal needs the role developer.';
    elsif jsonb_typeof(_input) is distinct from 'object' then
        raise exception 'the input of workflow "%" is not a JSON object', _of.workflow using errcode = 'WA025';
    end if;
    perform agent_internal.check_queue();
    insert into agent.run (kind, reason, queue_id, principal, key, change)
    values ('node', 'manual', _queue, agent.current_principal(), _of.workflow, jsonb_build_object(
        'op', 'insert', 'schema', 'agent', 'table', 'workflow', 'new', jsonb_strip_nulls(jsonb_build_object(
            'tenant', _of.tenant, 'workflow', _of.workflow, 'version', _of.version)) || jsonb_build_object('input', _input, 'from', _from,
            -- Approvals that the tenant requires now, by the risk of the tool.
            'approve', (select coalesce(jsonb_agg(distinct n.value #>> '{tool,name}'), '[]')
                          from jsonb_path_query(_of.definition, '$.**.nodes') g (nodes)
                               cross join jsonb_each(case jsonb_typeof(g.nodes) when 'object' then g.nodes else '{}' end) n
                         where n.value ->> 'kind' = 'tool'
                           and agent_internal.approves_risk((select t.risk from agent.tool t where t.name = n.value #>> '{tool,name}'), _as)))))
    returning id into _run;
    perform agent_internal.wake_workers();
    return _run;
end;
$$;

-- Start a run of the newest version of a workflow.  Its state is *input* at first.
--
-- Raises WA025, and 42501 if the caller lacks the role developer.
create or replace function agent.start_workflow(name text, input jsonb default '{}')
    returns bigint
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    return agent_internal.insert_workflow_run_of(start_workflow.name, start_workflow.input);
end;
$$;
comment on function agent.start_workflow(text, jsonb) is 'Start a run of a workflow';

create or replace function agent_internal.insert_workflow_run_of(_name text, _input jsonb)
    returns bigint
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$ begin return agent_internal.insert_workflow_run(agent_internal.workflow_named(_name), _input, null); end; $$;

-- Resume a run that waits for a person: once for each interrupt.
--
-- Args: patch: merged into the state; not for an approval of a tool's call.
--   answer: text for the workflow; a node of kind human stores it in the state.
-- Raises WA025 if the run does not wait, WA005, WA006 and 42501 as agent.approve() does.
create or replace function agent.resume_workflow(run bigint, patch jsonb default '{}', answer text default null)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _at agent.approval;
begin
    if jsonb_typeof(resume_workflow.patch) is distinct from 'object' then
        raise exception 'the patch of run % is not a JSON object', resume_workflow.run using errcode = 'WA025';
    end if;
    select p.* into _at from agent.approval p join agent.run r on r.id = p.run_id
     where p.run_id = resume_workflow.run and r.kind = 'node' and p.state = 'pending' order by p.id desc limit 1;
    if not found then
        raise exception 'run % is not a workflow that waits for a person', resume_workflow.run using errcode = 'WA025',
            hint = 'Interrupts are listed in agent.workflow_interrupt.';
    elsif resume_workflow.patch <> '{}' and not _at.arguments ? 'interrupt' then
        raise exception 'the call of tool "%" is approved as it is', _at.tool using errcode = 'WA025',
            hint = 'Use agent.approve(id, arguments) to change its arguments.';
    end if;
    update agent.approval a
       set state = 'approved', reason = resume_workflow.answer,
           edited = case when resume_workflow.patch <> '{}' then _at.arguments || jsonb_build_object('patch', resume_workflow.patch) end
     where a.id = _at.id;
end;
$$;
comment on function agent.resume_workflow(bigint, jsonb, text) is 'Resume a run that waits for a person';

-- The checkpoints of a run, oldest first.
create or replace function agent.workflow_state(run bigint)
    returns table (number integer, node text, came_from text, state jsonb, depth integer, at timestamptz)
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        select (c ->> 'number')::integer, c ->> 'node', c ->> 'from', c -> 'state', jsonb_array_length(c -> 'frames'), s.recorded_at
          from agent.step s cross join lateral (select s.content -> 'workflow') x (c)
         where s.run_id = workflow_state.run and s.kind = 'result' and c is not null
         order by s.seq;
end;
$$;
comment on function agent.workflow_state(bigint) is 'The checkpoints of a run: number, next node (NULL: the end), node before, state, depth of subgraphs';

-- Start a run of the same version at a checkpoint of another run, with *patch* merged into the state.
--
-- Raises WA025 if there is no such checkpoint, 42501 unless the caller can become the role that it runs as, and as
-- agent.start_workflow() does.
create or replace function agent.fork_workflow(run bigint, checkpoint integer, patch jsonb default '{}')
    returns bigint
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _run agent.run;
    _of  agent.workflow_version;
    _at  jsonb;
begin
    select * into _run from agent.run r
     where r.id = fork_workflow.run and r.kind = 'node' and r.change #>> '{new,tenant}' = agent.current_tenant();
    select s.content -> 'workflow' into _at from agent.step s
     where s.run_id = _run.id and s.kind = 'result' and s.content #>> '{workflow,number}' = fork_workflow.checkpoint::text;
    if _at is null or _at -> 'node' = 'null' then
        raise exception 'run % has no checkpoint % to continue from', fork_workflow.run, fork_workflow.checkpoint using errcode = 'WA025',
            hint = format('List them: select * from agent.workflow_state(%s)', fork_workflow.run);
    elsif jsonb_typeof(fork_workflow.patch) is distinct from 'object' then
        raise exception 'the patch of run % is not a JSON object', fork_workflow.run using errcode = 'WA025';
    end if;
    select v.* into _of from agent.workflow_version v
     where v.tenant = agent.current_tenant() and v.workflow = _run.change #>> '{new,workflow}' and v.version = (_run.change #>> '{new,version}')::integer;
    perform agent_internal.check_workflow_owner(_of);  -- what the nodes before have checked, a person perhaps, is checked no more
    return agent_internal.insert_workflow_run(_of, _run.change #> '{new,input}', jsonb_build_object(
        'run', _run.id, 'checkpoint', fork_workflow.checkpoint, 'node', _at -> 'node', 'frames', _at -> 'frames',
        'state', (_at -> 'state') || fork_workflow.patch));
end;
$$;
comment on function agent.fork_workflow(bigint, integer, jsonb) is 'Start a run at a checkpoint of another run';
