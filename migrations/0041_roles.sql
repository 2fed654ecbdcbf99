-- Who may do what: the functions that grant a capability to a role, and what later files add to a capability.

-- What a capability has beside what its function grants.  A file that creates an object registers it here, with
-- agent_internal.permit(), for the roles that have the capability already and for those that will have it.
create table agent_internal.privilege (
    capability text not null check (capability in ('runner', 'viewer', 'approver', 'developer', 'asker', 'member')),
    privilege  text not null,
    primary key (capability, privilege)
);
revoke all on agent_internal.privilege from public;
comment on table agent_internal.privilege is 'Privileges of a capability, as GRANT takes them';

-- Wait until no other transaction grants: at once, one of them fails with "tuple concurrently updated".  Who attaches an
-- agent to a table can hold it, since that creates a trampoline, and could keep the transaction open.
--
-- Raises 55P03 after 10 s.
create function agent_internal.lock_grants()
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '10s'
as $$
begin
    perform agent_internal.lock_alone('agent_internal.privilege', 'another transaction has been granting');
end;
$$;
comment on function agent_internal.lock_grants() is 'Wait until no other transaction grants privileges';
revoke all on function agent_internal.lock_grants() from public;

-- The roles that have a capability, by a privilege that only its function grants.
create function agent_internal.holders(_capability text)
    returns setof name
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select distinct r.rolname
      from pg_roles r
           join (select 'runner', x.grantee, x.grantor from pg_class c, aclexplode(c.relacl) x
                  where c.oid = 'agent.run'::regclass and x.privilege_type = 'UPDATE'
                 union all
                 select 'viewer', x.grantee, x.grantor from pg_class c, aclexplode(c.relacl) x
                  where c.oid = 'agent.run'::regclass and x.privilege_type = 'SELECT'
                 union all
                 select 'approver', x.grantee, x.grantor from pg_attribute a, aclexplode(a.attacl) x
                  where a.attrelid = 'agent.approval'::regclass and a.attname = 'state' and x.privilege_type = 'UPDATE'
                 union all
                 select 'developer', x.grantee, x.grantor from pg_class c, aclexplode(c.relacl) x
                  where c.oid = 'agent.attachment'::regclass and x.privilege_type = 'INSERT'
                 union all
                 select 'asker', x.grantee, x.grantor from pg_proc p, aclexplode(p.proacl) x
                  where p.oid = 'agent_internal.ask(text, text, jsonb)'::regprocedure
                 union all
                 select 'member', x.grantee, x.grantor from pg_proc p, aclexplode(p.proacl) x
                  where p.oid = 'agent.act_as(text)'::regprocedure
                ) as h (capability, grantee, grantor) on h.grantee = r.oid and h.grantee <> h.grantor
     where h.capability = _capability
$$;
comment on function agent_internal.holders(text) is 'Roles that have a capability';

-- Add privileges to a capability: permit('viewer', 'select on agent.fact').
create function agent_internal.permit(_capability text, variadic _privileges text[])
    returns void
    language plpgsql
as $$
declare
    _role name;
begin
    perform agent_internal.lock_grants();
    insert into agent_internal.privilege (capability, privilege) select _capability, p from unnest(_privileges) p
    on conflict do nothing;
    for _role in select * from agent_internal.holders(_capability) loop
        perform agent_internal.grant_registered(_capability, _role);
    end loop;
end;
$$;
comment on function agent_internal.permit(text, text[]) is 'Add privileges to a capability; used by migrations';

create function agent_internal.grant_registered(_capability text, _role name)
    returns void
    language plpgsql
as $$
declare
    _privilege text;
begin
    for _privilege in select p.privilege from agent_internal.privilege p where p.capability = _capability order by 1 loop
        execute format('grant %s to %I', _privilege, _role);
    end loop;
end;
$$;
comment on function agent_internal.grant_registered(text, name) is 'Grant a role what was added to a capability';

-- The role of the daemon.  It reads and writes runs, owns nothing, decides no approvals and cannot change the definition
-- of an attachment.  It must also be a member of every run_as role: grant app to walagent_runner.
create or replace function agent.grant_runner(role name)
    returns void
    language plpgsql
as $$
begin
    perform agent_internal.lock_grants();
    execute format('grant usage on schema agent, agent_internal to %I', role);
    execute format('grant select on all tables in schema agent, agent_internal to %I', role);
    execute format('grant insert, update, delete on agent.run, agent_internal.merged_change, agent_internal.deferred_change, agent.checkpoint, agent.gap, '
        'agent.backfill, agent_internal.backfill_seen, agent.worker, agent.spend to %I', role);
    execute format('grant insert, update, delete on agent.gap_choice to %I', role);
    execute format('grant insert, update, delete on agent.session, agent.question, agent.verified_query, agent.glossary, '
        'agent_internal.schema_index, agent_internal.schema_table to %I', role);
    execute format('grant insert on agent.step, agent.approval, agent.tool to %I', role);
    execute format('grant update on agent.approval, agent_internal.queue, agent.tool, agent_internal.budget_use to %I', role);
    execute format('revoke update on agent.attachment_version from %I', role);
    execute format('grant insert, update (active_from, active_until) on agent.attachment_version to %I', role);
    execute format('grant usage on all sequences in schema agent, agent_internal to %I', role);
    execute format('grant execute on all functions in schema agent, agent_internal to %I', role);
    execute format('revoke execute on function agent_internal.freeze_attachment(), agent_internal.delete_attachment_state(), agent_internal.sync_queue(), agent_internal.detach_queue(), '
        'agent_internal.continue_decided(), agent_internal.publish_relation(regclass), agent_internal.request_for_attachments(regclass), agent_internal.record_published(regclass, oid), '
        'agent_internal.repair_publications(), agent_internal.republish(), agent_internal.adopt_tables(), agent.grant_runner(name), agent.grant_developer(name), '
        'agent.grant_approver(name), agent.grant_viewer(name), agent.grant_asker(name), agent.grant_member(name), '
        'agent_internal.permit(text, text[]), agent_internal.grant_registered(text, name) from %I', role);
    if not exists (select from pg_catalog.pg_attribute a, pg_catalog.aclexplode(a.attacl) x, pg_catalog.pg_roles r
                    where a.attrelid = 'agent.approval'::regclass and a.attname = 'state' and x.grantee = r.oid and r.rolname = role) then
        execute format('revoke execute on function agent.approve(bigint), agent.reject(bigint, text), '
            'agent_internal.decide(bigint, text, text) from %I', role);  -- it is no approver
    end if;
    perform agent_internal.grant_registered('runner', role);
end;
$$;

create or replace function agent.grant_viewer(role name)
    returns void
    language plpgsql
as $$
begin
    perform agent_internal.lock_grants();
    execute format('grant usage on schema agent, agent_internal to %I', role);
    execute format('grant select on agent.model, agent.tool, agent.agent, agent.attachment, agent.run, agent.step, agent.approval, '
        'agent.run_overview, agent.pending_approval, agent.broken_invariant, agent.backfill, agent.checkpoint, agent.gap, '
        'agent_internal.queue, agent.worker, agent_internal.merged_change, agent.attachment_version, '
        'agent.question, agent.session to %I', role);  -- of questions, its own: a policy sees to it
    execute format('grant execute on function agent.current_principal(), agent_internal.now(), '
        'agent_internal.is_final(agent.run_state), agent_internal.first_checked_run(), '
        'agent_internal.runs_in_circles(), agent_internal.suggest(text, text[]), agent_internal.edit_distance(text, text), '
        'agent_internal.key_columns(regclass), agent_internal.drift_of(jsonb) to %I', role);
    execute format('grant select on agent.gap_choice, agent_internal.published, agent_internal.requested_table to %I', role);
    execute format('grant select on agent.budget, agent_internal.budget_use, agent.spend, agent.budget_overview, agent.unpriced '
        'to %I', role);
    execute format('grant execute on function agent_internal.period_start(text, timestamptz), agent_internal.period_end(text, timestamptz) '
        'to %I', role);
    execute format('grant execute on function agent_internal.publication_trouble() to %I', role);
    perform agent_internal.grant_registered('viewer', role);
end;
$$;

create or replace function agent.grant_approver(role name)
    returns void
    language plpgsql
as $$
begin
    perform agent_internal.lock_grants();
    perform agent.grant_viewer(role);
    execute format('grant update (state, reason) on agent.approval to %I', role);
    execute format('grant execute on function agent.approve(bigint), agent.reject(bigint, text), '
        'agent_internal.decide(bigint, text, text), agent_internal.decision_of(text), agent.cancel(bigint, text), agent.retry(bigint, boolean), '
        'agent.retry_runs(bigint[], boolean), agent.cancel_runs(bigint[], text), agent.approve_calls(bigint[]), '
        'agent.reject_calls(bigint[], text), agent.resolve(bigint, boolean, text) to %I', role);
    perform agent_internal.grant_registered('approver', role);
end;
$$;

-- To attach requires no privilege on runs: only on the definitions, and on the tables.
create or replace function agent.grant_developer(role name)
    returns void
    language plpgsql
as $$
begin
    perform agent_internal.lock_grants();
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
               'drop_message', 'reattach_message', 'drift_of', 'lock_apply'));
    perform agent_internal.grant_registered('developer', role);
end;
$$;

-- A login that only asks: it holds the runs of its own questions, and sees of runs, steps and approvals what a claim
-- returns.
create or replace function agent.grant_asker(role name)
    returns void
    language plpgsql
as $$
begin
    perform agent_internal.lock_grants();
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
           and p.proname in ('now', 'current_principal', 'is_member_of', 'ask', 'resume_session', 'delete_session', 'claim_runs',
                             'heartbeat', 'record_step', 'reserve', 'finish_run', 'finish_with_step', 'park_run', 'wait_for_budget'));
    perform agent_internal.grant_registered('asker', role);
end;
$$;

-- A login of people, or of an application that acts for principals with their tokens.
create function agent.grant_member(role name)
    returns void
    language plpgsql
as $$
begin
    perform agent_internal.lock_grants();
    execute format('grant usage on schema agent, agent_internal to %I', role);
    execute format('grant execute on function agent.act_as(text) to %I', role);
    perform agent_internal.grant_registered('member', role);
end;
$$;
comment on function agent.grant_member(name) is 'Allow a role to take part in threads, for itself or for principals whose tokens it has';

revoke all on function agent_internal.holders(text), agent_internal.permit(text, text[]), agent_internal.grant_registered(text, name),
    agent.grant_member(name) from public;

-- Policies and their functions are executed as the role that reads.
select agent_internal.permit(c, 'execute on function agent.current_tenant(), agent.current_principal(), agent.has_role(text), agent.has_scope(text), '
                                'agent_internal.identity(), agent_internal.all_tenants(), agent_internal.sought_token(), agent_internal.may_read(), '
                                'agent_internal.has_owner_rights()',
                             'select on agent.tenant, agent.principal, agent.role_grant')
  from unnest('{viewer, developer, asker, member}'::text[]) c;

-- Roles that were granted before need what is new.
do $$
declare
    _role name;
begin
    for _role in select * from agent_internal.holders('runner') loop
        perform agent.grant_runner(_role);
    end loop;
end;
$$;
