-- What people look at, and who may do what.

create view agent.run_overview with (security_invoker = on) as
    select r.id, r.kind, a.name as attachment, r.reason, r.state, r.change ->> 'op' as op,
           (r.change ->> 'schema') || '.' || (r.change ->> 'table') as relation, r.key,
           r.attempt, (select count(*) from agent.step s where s.run_id = r.id) as steps,
           r.tokens, r.cost, r.result, r.error ->> 'reason' as error,
           r.committed_at, r.created_at, r.started_at, r.finished_at, r.commit_lsn, r.ordinal, r.cause_run, r.depth
      from agent.run r left join agent.attachment a on a.id = r.attachment_id;
comment on view agent.run_overview is 'Runs as a person reads them';

create view agent.pending_approval with (security_invoker = on) as
    select p.id, p.run_id, a.name as attachment, p.tool, p.arguments, r.key, p.asked_at, p.expires_at
      from agent.approval p
           join agent.run r on r.id = p.run_id
           left join agent.attachment a on a.id = r.attachment_id
     where p.state = 'pending';
comment on view agent.pending_approval is 'Tool calls that wait for a person';

-- Broken promises, one row each; empty when all is well.  `walagent check` prints it.
create view agent.broken_invariant with (security_invoker = on) as
    select 'a step is missing' as rule, format('run %s: %s steps, the last is number %s', run_id, count(*), max(seq)) as detail
      from agent.step group by run_id having count(*) <> max(seq) + 1
    union all
    select 'a run is ahead of the checkpoint', format('run %s at %s, checkpoint at %s', r.id, r.commit_lsn, max(p.end_lsn))
      from agent.run r join agent.checkpoint p on p.generation = r.generation
     where r.reason = 'change' group by r.id having r.commit_lsn >= max(p.end_lsn)
    union all
    select 'two runs of one ordering key at the same time', format('queue %s, ordering key %s', queue_id, ordering_key)
      from agent.run where state = 'running' and ordering_key is not null group by queue_id, ordering_key having count(*) > 1
    union all
    select 'a run waits for an approval that nobody can give', format('run %s', r.id)
      from agent.run r
     where r.state = 'waiting_approval'
       and not exists (select from agent.approval p where p.run_id = r.id and p.state = 'pending')
    union all
    select 'an approval waits for a run that has ended', format('approval %s of run %s', p.id, p.run_id)
      from agent.approval p join agent.run r on r.id = p.run_id
     where p.state = 'pending' and agent_internal.is_final(r.state)
    union all
    select 'a run is blocked by one that has ended', format('run %s by %s', r.id, r.blocked_by)
      from agent.run r join agent.run p on p.id = r.blocked_by where agent_internal.is_final(p.state)
    union all
    select 'a call has two results', format('run %s, call %s', run_id, content ->> 'call_id')
      from agent.step where kind = 'result' group by run_id, content ->> 'call_id' having count(*) > 1
    union all
    select 'a lease ran out and nobody took the run', format('run %s since %s', id, lease_expires_at)
      from agent.run where state = 'running' and lease_expires_at < agent_internal.now() - interval '5 minutes'
    union all
    select 'a change is in two runs', format('attachment %s at %s #%s', m.attachment_id, m.commit_lsn, m.ordinal)
      from agent_internal.merged_change m join agent.run r using (attachment_id, generation, commit_lsn, ordinal);
comment on view agent.broken_invariant is 'Promises that do not hold; always empty';

-- The daemon's role.  It reads and writes runs; it owns nothing and may alter no attachment's definition.
-- It must also be a member of every run_as role: grant app to walagent_runner.
create function agent.grant_runner(role name)
    returns void
    language plpgsql
as $$
begin
    execute format('grant usage on schema agent, agent_internal to %I', role);
    execute format('grant select on all tables in schema agent, agent_internal to %I', role);
    execute format('grant insert, update, delete on agent.run, agent_internal.merged_change, agent_internal.deferred_change, agent.checkpoint, agent.gap, '
        'agent.backfill, agent_internal.backfill_seen, agent.worker, agent.spend to %I', role);
    execute format('grant insert, update, delete on agent.gap_choice to %I', role);
    execute format('grant insert, update, delete on agent.session, agent.question, agent.verified_query, agent.glossary, '
        'agent_internal.schema_index, agent_internal.schema_table to %I', role);
    execute format('grant insert on agent.step, agent.approval, agent.tool to %I', role);
    execute format('grant update on agent.approval, agent_internal.queue, agent.tool, agent_internal.budget_use to %I', role);
    execute format('grant insert, update on agent.attachment_version to %I', role);
    execute format('grant usage on all sequences in schema agent, agent_internal to %I', role);
    execute format('grant execute on all functions in schema agent, agent_internal to %I', role);
    execute format('revoke execute on function agent_internal.freeze_attachment(), agent_internal.delete_attachment_state(), agent_internal.sync_queue(), agent_internal.delete_queue(), '
        'agent_internal.continue_decided(), agent_internal.publish_relation(regclass), agent_internal.record_published(regclass, oid), '
        'agent_internal.repair_publications(), agent_internal.republish(), agent_internal.adopt_tables(), agent.grant_runner(name), agent.grant_developer(name), '
        'agent.grant_approver(name), agent.grant_viewer(name), agent.grant_asker(name) from %I', role);
end;
$$;
comment on function agent.grant_runner(name) is 'Let a role be the daemon''s';

create function agent.grant_viewer(role name)
    returns void
    language plpgsql
as $$
begin
    execute format('grant usage on schema agent, agent_internal to %I', role);
    execute format('grant select on agent.model, agent.tool, agent.agent, agent.attachment, agent.run, agent.step, agent.approval, '
        'agent.run_overview, agent.pending_approval, agent.broken_invariant, agent.backfill, agent.checkpoint, agent.gap, '
        'agent_internal.queue, agent.worker, agent_internal.merged_change, agent.attachment_version to %I', role);
    execute format('grant execute on function agent.current_principal(), agent_internal.now(), '
        'agent_internal.is_final(agent.run_state) to %I', role);
    execute format('grant select on agent.gap_choice, agent_internal.published to %I', role);
    execute format('grant select on agent.budget, agent_internal.budget_use, agent.spend, agent.budget_overview, agent.unpriced '
        'to %I', role);
    execute format('grant execute on function agent_internal.period_start(text, timestamptz), agent_internal.period_end(text, timestamptz) '
        'to %I', role);
    execute format('grant execute on function agent_internal.publication_trouble() to %I', role);
end;
$$;
comment on function agent.grant_viewer(name) is 'Let a role read agents, runs and steps, with the row data in them';

create function agent.grant_approver(role name)
    returns void
    language plpgsql
as $$
begin
    perform agent.grant_viewer(role);
    execute format('grant update (state, reason) on agent.approval to %I', role);
    execute format('grant execute on function agent.approve(bigint), agent.reject(bigint, text), '
        'agent_internal.decide(bigint, text, text), agent_internal.decision_of(text), agent.cancel(bigint, text), agent.retry(bigint), '
        'agent.resolve(bigint, boolean, text) to %I', role);
end;
$$;
comment on function agent.grant_approver(name) is 'Let a role decide about tool calls, and cancel and retry runs';

-- Whoever attaches needs no right on runs: only on the definitions, and on its own tables.
create function agent.grant_developer(role name)
    returns void
    language plpgsql
as $$
begin
    execute format('grant usage on schema agent, agent_internal to %I', role);
    execute format('grant select on agent.model, agent.tool, agent.agent, agent.attachment, agent.backfill to %I', role);
    execute format('grant insert, update, delete on agent.agent, agent.attachment to %I', role);
    execute format('grant usage on all sequences in schema agent, agent_internal to %I', role);
    execute (
        select string_agg(format('grant execute on function %s to %I', p.oid::regprocedure, role), '; ')
          from pg_catalog.pg_proc p
         where p.pronamespace in ('agent'::regnamespace, 'agent_internal'::regnamespace)
           and p.proname in ('now', 'current_principal', 'attach', 'detach', 'pause', 'resume', 'parse_spec', 'spec_skip', 'spec_value', 'spec_list',
               'spec_ops', 'spec_bind', 'spec_cast', 'suggest', 'edit_distance', 'json_schema_of', 'check_list', 'column_schema',
               'key_columns', 'identity_columns', 'is_utf8', 'json_columns', 'argument_names', 'function_tool', 'schemas_of', 'find_function', 'check_function', 'tool_name', 'resolve_tool', 'drop_arguments', 'update_tool', 'query_tool', 'writing_rights',
               'is_one_expression', 'view_condition', 'compile_condition', 'row_filter', 'check_visibility', 'check_columns', 'check_streamed', 'check_relation', 'may_change', 'checked_attachment', 'define', 'check_model', 'check_tools', 'check_approve',
               'drop_message', 'reattach_message', 'drift_of'));
end;
$$;
comment on function agent.grant_developer(name) is 'Let a role attach agents to tables that it may read';

-- At the end, so that it holds for what this file makes, too.
revoke all on schema agent, agent_internal from public;
revoke all on all tables in schema agent, agent_internal from public;
revoke all on all functions in schema agent, agent_internal from public;
