-- Who may do what.

-- The role of the daemon.  It reads and writes runs, owns nothing and cannot change the definition of an attachment.
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
    execute format('revoke execute on function agent_internal.freeze_attachment(), agent_internal.delete_attachment_state(), agent_internal.sync_queue(), agent_internal.detach_queue(), '
        'agent_internal.continue_decided(), agent_internal.publish_relation(regclass), agent_internal.request_for_attachments(regclass), agent_internal.record_published(regclass, oid), '
        'agent_internal.repair_publications(), agent_internal.republish(), agent_internal.adopt_tables(), agent.grant_runner(name), agent.grant_developer(name), '
        'agent.grant_approver(name), agent.grant_viewer(name), agent.grant_asker(name) from %I', role);
end;
$$;
comment on function agent.grant_runner(name) is 'Allow a role to run the daemon';

create function agent.grant_viewer(role name)
    returns void
    language plpgsql
as $$
begin
    execute format('grant usage on schema agent, agent_internal to %I', role);
    execute format('grant select on agent.model, agent.tool, agent.agent, agent.attachment, agent.run, agent.step, agent.approval, '
        'agent.run_overview, agent.pending_approval, agent.broken_invariant, agent.backfill, agent.checkpoint, agent.gap, '
        'agent_internal.queue, agent.worker, agent_internal.merged_change, agent.attachment_version, '
        'agent.question, agent.session to %I', role);  -- of questions, its own: a policy sees to it
    execute format('grant execute on function agent.current_principal(), agent_internal.now(), '
        'agent_internal.is_final(agent.run_state), agent_internal.first_checked_run(), '
        'agent_internal.suggest(text, text[]), agent_internal.edit_distance(text, text), '
        'agent_internal.key_columns(regclass), agent_internal.drift_of(jsonb) to %I', role);
    execute format('grant select on agent.gap_choice, agent_internal.published, agent_internal.requested_table to %I', role);
    execute format('grant select on agent.budget, agent_internal.budget_use, agent.spend, agent.budget_overview, agent.unpriced '
        'to %I', role);
    execute format('grant execute on function agent_internal.period_start(text, timestamptz), agent_internal.period_end(text, timestamptz) '
        'to %I', role);
    execute format('grant execute on function agent_internal.publication_trouble() to %I', role);
end;
$$;
comment on function agent.grant_viewer(name) is 'Allow a role to read agents, runs and steps, with the row data in them';

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
comment on function agent.grant_approver(name) is 'Allow a role to approve and reject tool calls, and to cancel, retry and resolve runs';

-- To attach requires no privilege on runs: only on the definitions, and on the tables.
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
comment on function agent.grant_developer(name) is 'Allow a role to attach agents to tables that it can read';

-- A login that only asks: it holds the runs of its own questions, and sees of runs, steps and approvals what a claim
-- returns.
create function agent.grant_asker(role name)
    returns void
    language plpgsql
as $$
begin
    execute format('grant usage on schema agent, agent_internal to %I', role);
    execute format('grant select on agent.model, agent.session, agent.question to %I', role);
    execute format('grant update (summary, summary_upto) on agent.session to %I', role);
    execute format('grant update (answer) on agent.question to %I', role);
    execute format('grant select, insert, update, delete on agent.verified_query, agent.glossary, agent_internal.schema_index, '
        'agent_internal.schema_table to %I', role);
    execute (
        select string_agg(format('grant execute on function %s to %I', p.oid::regprocedure, role), '; ')
          from pg_catalog.pg_proc p
         where p.pronamespace in ('agent'::regnamespace, 'agent_internal'::regnamespace)
           and p.proname in ('now', 'current_principal', 'is_member_of', 'ask', 'resume_session', 'claim_runs', 'heartbeat',
                             'record_step', 'reserve', 'finish_run', 'finish_with_step', 'park_run', 'wait_for_budget'));
end;
$$;
comment on function agent.grant_asker(name) is 'Allow a role to ask questions (walagent ask, chat, the library) and to read its own sessions';

-- Last, so that it covers what all files create.
revoke all on schema agent, agent_internal from public;
revoke all on all tables in schema agent, agent_internal from public;
revoke all on all functions in schema agent, agent_internal from public;
