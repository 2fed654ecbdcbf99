-- Runs, their steps and approvals are read by principals with a role for it; others read their own, and turns of their threads.

-- Whether the caller reads all runs of its tenant.  For a login of no principal, its privileges decide.
create function agent_internal.sees_runs()
    returns boolean
    language plpgsql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    return not (agent_internal.identity()).named or agent.has_role('viewer') or agent.has_role('approver') or agent.has_role('auditor');
end;
$$;
comment on function agent_internal.sees_runs() is 'Whether the caller reads all runs of its tenant';

-- Of a turn, the run says no more than its thread does; its steps have what tools returned.
create policy reader on agent.run as restrictive for select
    using ((select agent_internal.all_tenants() or agent_internal.has_owner_rights() or agent_internal.sees_runs())
           or principal = (select agent.current_principal())
           or kind = 'turn' and exists (select from agent_internal.participation p where p.thread_id::text = run.ordering_key));
create policy reader on agent.step as restrictive for select
    using ((select agent_internal.all_tenants() or agent_internal.has_owner_rights() or agent_internal.sees_runs())
           or exists (select from agent.run r where r.id = step.run_id and r.principal = (select agent.current_principal())));
create policy reader on agent.approval as restrictive for select
    using ((select agent_internal.all_tenants() or agent_internal.has_owner_rights() or agent_internal.sees_runs())
           or exists (select from agent.run r where r.id = approval.run_id));

revoke all on function agent_internal.sees_runs() from public;
select agent_internal.permit(c, 'execute on function agent_internal.sees_runs()') from unnest('{viewer, developer, asker, member}'::text[]) c;
