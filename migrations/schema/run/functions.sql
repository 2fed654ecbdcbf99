create or replace function agent_internal.is_final(_state agent.run_state)
    returns boolean
    language sql
    immutable
return _state in ('succeeded', 'failed', 'dead', 'cancelled', 'skipped');

-- The transitions.  Only agent.retry() requeues `failed`, `dead` and `cancelled`.
create or replace function agent_internal.may_follow(_old agent.run_state, _new agent.run_state)
    returns boolean
    language sql
    immutable
begin atomic
    select case _old
        when 'pending' then _new in ('running', 'cancelled', 'dead', 'skipped')
        when 'running' then _new in ('pending', 'waiting_approval', 'waiting_retry', 'needs_review',
                                     'succeeded', 'failed', 'dead', 'cancelled', 'skipped')
        when 'waiting_approval' then _new in ('pending', 'cancelled', 'failed')
        when 'waiting_retry' then _new in ('pending', 'cancelled', 'dead')
        when 'needs_review' then _new in ('pending', 'cancelled', 'failed')
        when 'failed' then _new = 'pending'
        when 'dead' then _new = 'pending'
        when 'cancelled' then _new = 'pending'
        else false
    end;
end;

create or replace function agent_internal.check_transition()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if not agent_internal.may_follow(old.state, new.state) then
        raise exception 'cannot change the state of run % from % to %', old.id, old.state, new.state
            using errcode = 'WA003',
                  hint = 'See "States of a run" in docs/concepts.md.';
    end if;
    return new;
end;
$$;

-- Whether the caller reads all runs of its tenant.  For a login of no principal, its privileges decide.
create or replace function agent_internal.sees_runs()
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

-- How many runs of the tenant are not at their end, by attachment; for those who may not read the runs themselves.
create or replace function agent_internal.unfinished_runs()
    returns table (attachment_id bigint, pending bigint, running bigint, waiting bigint, failed bigint)
    language sql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
    select r.attachment_id,
           count(*) filter (where r.state = 'pending'),
           count(*) filter (where r.state = 'running'),
           count(*) filter (where r.state in ('waiting_approval', 'waiting_retry', 'needs_review')),
           count(*) filter (where r.state in ('failed', 'dead'))
      from agent.run r
     where r.tenant = agent.current_tenant() and r.state not in ('succeeded', 'cancelled', 'skipped')
     group by r.attachment_id
$$;
comment on function agent_internal.unfinished_runs() is 'How many runs of the tenant are not at their end, by attachment';

-- How many runs wait for a budget of the tenant.
create or replace function agent_internal.waiting_runs(_tenant text, _budget text)
    returns bigint
    language sql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
    select count(*) from agent.run r
     where r.state = 'waiting_retry' and r.error ->> 'budget' = _budget and r.tenant = _tenant
       and (_tenant = agent.current_tenant() or agent_internal.all_tenants() or agent_internal.is_operator())
$$;
comment on function agent_internal.waiting_runs(text, text) is 'How many runs wait for a budget';

-- Whether the caller sees all changes of its tenant: it decides what is done with them, or executes it.
create or replace function agent_internal.sees_changes()
    returns boolean
    language plpgsql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _me constant record := agent_internal.identity();
begin
    if _me.named then
        return exists (select from agent.role_grant g
                        where g.tenant = _me.tenant and g.principal = _me.principal and g.role in ('approver', 'admin')
                          and (g.expires_at is null or g.expires_at > agent_internal.now()));
    end if;
    return has_function_privilege(session_user, 'agent.approve(bigint)', 'execute')
        or has_table_privilege(session_user, 'agent.run', 'insert');  -- who executes runs can become each agent's role
end;
$$;
comment on function agent_internal.sees_changes() is 'Whether the caller sees all changes of its tenant';

-- Whether policies can hide rows of the table of a definition from a role.  Of one that is gone, nobody knows.
create or replace function agent_internal.is_guarded(_definition jsonb, _from name)
    returns boolean
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select _definition ->> 'schema' <> 'agent' and coalesce((
        select c.relrowsecurity and not exists (
                   select from pg_roles l
                    where l.rolname = _from and (l.rolsuper or l.rolbypassrls
                                                 or not c.relforcerowsecurity and pg_has_role(l.oid, c.relowner, 'usage')))
          from pg_class c join pg_namespace n on n.oid = c.relnamespace
         where n.nspname = _definition ->> 'schema' and c.relname = _definition ->> 'table'), true)
$$;

-- The attachments whose rows policies can hide from the caller, also those that were detached.
create or replace function agent_internal.guarded_attachments()
    returns bigint[]
    language sql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
    select case when not agent_internal.sees_changes() then array(
        select distinct v.attachment_id from agent.attachment_version v
         where agent_internal.is_guarded(v.definition, agent_internal.own_login())) else '{}' end
$$;
comment on function agent_internal.guarded_attachments() is 'The attachments whose rows policies can hide from the caller';

-- Whether the agent was shown the change of a run, which its role can see.
create or replace function agent_internal.was_shown(_run bigint)
    returns boolean
    language sql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$ select exists (select from agent.step s where s.run_id = _run and s.kind not in ('note', 'error')) $$;
comment on function agent_internal.was_shown(bigint) is 'Whether the agent of a run was shown its change';

-- The columns of each attachment's table that the caller's own login can read, by attachment; NULL: it sees all changes.
create or replace function agent_internal.readable()
    returns jsonb
    language plpgsql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _me constant record := agent_internal.identity();
begin
    if agent_internal.sees_changes() then
        return null;
    end if;
    return (
        select coalesce(jsonb_object_agg(a.id, array(
                   select t.attname::text from pg_attribute t
                    where t.attrelid = c.oid and t.attnum > 0 and not t.attisdropped
                      and has_column_privilege(l.oid, c.oid, t.attnum, 'select'))), '{}')
          from agent.attachment a
               join pg_class c on c.oid = a.relation
               join pg_roles l on l.rolname = agent_internal.own_login()
         where (a.tenant = _me.tenant or a.tenant_column is not null or agent_internal.all_tenants())
           and has_schema_privilege(l.oid, c.relnamespace, 'usage')
           -- A policy cannot judge a row of the past.
           and (not c.relrowsecurity or l.rolsuper or l.rolbypassrls
                or (not c.relforcerowsecurity and pg_has_role(l.oid, c.relowner, 'usage'))));
end;
$$;
comment on function agent_internal.readable() is 'The columns that the caller can read of each attachment''s table; NULL: all changes';

-- A change as who can read these columns sees it; hidden: how many columns it has beside them.
create or replace function agent_internal.shown(_change jsonb, _attachment bigint, _readable jsonb)
    returns jsonb
    language sql
    immutable
    return case when _readable is null or not _change ?| '{new,old}' then _change
                else _change - '{new,old,truncated,unchanged}'::text[] || jsonb_build_object(
                    'new', (select jsonb_object_agg(e.key, e.value) from jsonb_each(nullif(_change -> 'new', 'null')) e
                             where _readable -> _attachment::text ? e.key),
                    'old', (select jsonb_object_agg(e.key, e.value) from jsonb_each(nullif(_change -> 'old', 'null')) e
                             where _readable -> _attachment::text ? e.key),
                    'hidden', (select count(*) from (
                                   select k from jsonb_object_keys(coalesce(nullif(_change -> 'new', 'null'), '{}')) k
                                   union
                                   select k from jsonb_object_keys(coalesce(nullif(_change -> 'old', 'null'), '{}')) k) n
                                where (_readable -> _attachment::text ? k) is not true)) end;
comment on function agent_internal.shown(jsonb, bigint, jsonb) is 'A change without the columns that its reader cannot read in its table';

-- What people of the tenant of a run may know of the definition that it has: the attachment can be the operator's, whose rows
-- name their tenants.  NULL: the run has none, or the caller does not see the run.
create or replace function agent_internal.definition_of_run(_run bigint)
    returns jsonb
    language sql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
    select jsonb_build_object(
               'name', coalesce(a.name, v.definition ->> 'name'), 'agent', v.definition -> 'agent', 'writes', v.definition -> 'writes',
               'score_share', v.definition -> 'score_share', 'max_steps', v.definition -> 'max_steps',
               'max_tokens', v.definition -> 'max_tokens', 'max_cost', v.definition -> 'max_cost',
               'tools', (select coalesce(jsonb_agg(jsonb_build_object('name', t -> 'name', 'bind', t -> 'bind')), '[]')
                           from jsonb_array_elements(v.definition -> 'tools') t))
      from agent.run r
           join agent.attachment_version v on v.attachment_id = r.attachment_id and v.version = r.attachment_version
           left join agent.attachment a on a.id = r.attachment_id
     where r.id = _run and (agent_internal.all_tenants() or r.tenant = agent.current_tenant())
$$;
comment on function agent_internal.definition_of_run(bigint) is 'What people of the tenant of a run may know of its definition';

create or replace function agent_internal.agent_of_run(_attachment bigint, _run bigint)
    returns text
    language sql
    stable
    return case when _attachment is not null then agent_internal.definition_of_run(_run) ->> 'agent' end;
comment on function agent_internal.agent_of_run(bigint, bigint) is 'The agent of a run of an attachment; NULL: it has none';
