-- Args: days: up to how long ago the runs were created.
create or replace function agent.agent_analytics(days integer default 7)
    returns table (
        tenant text, agent text, runs bigint, succeeded bigint, failed bigint, waiting bigint, tokens numeric, cost numeric,
        average_seconds numeric, slow_seconds numeric, rating numeric
    )
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select r.tenant, r.agent, count(*), count(*) filter (where r.state = 'succeeded'),
           count(*) filter (where r.state in ('failed', 'dead')),
           count(*) filter (where r.state in ('waiting_approval', 'waiting_retry', 'needs_review')), sum(r.tokens), sum(r.cost),
           round(avg(r.seconds), 3), round((percentile_cont(0.95) within group (order by r.seconds))::numeric, 3),
           (select round(avg(o.rating), 2)
              from agent.observation o join agent.event e on e.tenant = o.tenant and e.id = o.event_id
             where o.tenant = r.tenant and o.type = 'rating' and e.author = r.agent
               and o.created_at > agent_internal.now() - make_interval(days => agent_analytics.days))
      from (select x.tenant, coalesce(a.agent, agent_internal.agent_of_run(x.attachment_id, x.id), x.principal::text) as agent, x.state, x.tokens, x.cost,
                   extract(epoch from x.finished_at - x.started_at) as seconds
              from agent.run x left join agent.attachment a on a.id = x.attachment_id
             where x.created_at > agent_internal.now() - make_interval(days => agent_analytics.days) and x.kind <> 'question') r
     where r.agent is not null
     group by r.tenant, r.agent
$$;
comment on function agent.agent_analytics(integer) is 'Runs, tokens, cost, durations and ratings of each agent in the last days';

-- The versions of attachments of other tenants that runs of the tenant of the caller failed in.
create or replace function agent_internal.versions_of_others()
    returns table (attachment_id bigint, version integer, agent text, made_at timestamptz, is_present boolean)
    language sql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
    select v.attachment_id, v.version, v.definition ->> 'agent', v.made_at,
           exists (select from agent.attachment a where a.id = v.attachment_id and a.version = v.version)
      from agent.attachment_version v
     where v.tenant <> agent.current_tenant() and v.definition ->> 'tenant_column' is not null
       and v.attachment_id in (
               select r.attachment_id from agent.run r where r.tenant = agent.current_tenant() and r.state in ('failed', 'dead')
               union all
               select r.attachment_id from agent.run r where r.tenant = agent.current_tenant() and r.state = 'waiting_retry')
$$;
comment on function agent_internal.versions_of_others() is 'Versions of shared attachments of which runs of the tenant of the caller failed';

-- Raise WA005 unless failures that the caller can see, or a decision, have this identity; return the reason without values.
create or replace function agent_internal.check_issue(_agent text, _reason text, _sqlstate text)
    returns text
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _known constant text := agent_internal.without_values(_reason);
begin
    if not exists (select from agent.issue i
                    where i.tenant = agent.current_tenant() and (i.agent, i.reason, i.sqlstate) = (_agent, _known, _sqlstate))
       and not exists (select from agent_internal.failure f
                        where f.state in ('failed', 'dead') and f.tenant = agent.current_tenant()
                          and (f.agent, f.sqlstate, f.reason) = (_agent, _sqlstate, _known)) then
        raise exception 'no run of "%" failed with SQLSTATE "%" and the reason "%"', left(_agent, 100), left(_sqlstate, 5), left(_known, 200)
            using errcode = 'WA005';
    end if;
    return _known;
end;
$$;

-- Args: resolved_in: present: failures of versions that had been replaced do not count; next: only those of versions made later
--   do; NULL: all do.
create or replace function agent.decide_issue(
    agent text, reason text, sqlstate text, state text, resolved_in text default null, mute interval default null
)
    returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _known text;
    _id    text;
begin
    perform agent_internal.check_role('approver');
    if decide_issue.state is null or decide_issue.state not in ('open', 'resolved', 'muted') then
        raise exception 'invalid state "%"; expected open, resolved or muted', decide_issue.state using errcode = '22023';
    elsif decide_issue.resolved_in not in ('present', 'next') or decide_issue.resolved_in is not null and decide_issue.state <> 'resolved' then
        raise exception 'invalid version "%"; expected present or next, of a resolved issue', decide_issue.resolved_in
            using errcode = '22023';
    elsif (decide_issue.state = 'muted') <> (decide_issue.mute is not null)
          or decide_issue.mute not between interval '1 minute' and interval '365 days' then
        raise exception 'expected how long a muted issue is muted, from 1 minute to 365 days' using errcode = '22023';
    end if;
    _known := agent_internal.check_issue(decide_issue.agent, decide_issue.reason, decide_issue.sqlstate);
    insert into agent.issue as i (agent, reason, sqlstate, state, resolved_in, muted_until)
    values (decide_issue.agent, _known, decide_issue.sqlstate, decide_issue.state, decide_issue.resolved_in,
            agent_internal.now() + decide_issue.mute)
    on conflict on constraint issue_pkey do update
       set state = excluded.state, since = excluded.since, resolved_in = excluded.resolved_in, muted_until = excluded.muted_until,
           changed_by = excluded.changed_by
    returning i.id into _id;
    perform agent_internal.audit('issue.' || case decide_issue.state when 'open' then 'opened' else decide_issue.state end, _id,
                                 jsonb_build_object('agent', decide_issue.agent, 'sqlstate', decide_issue.sqlstate));
    return _id;
end;
$$;
comment on function agent.decide_issue(text, text, text, text, text, interval) is 'Open, resolve or mute an issue: failures with the same agent, SQLSTATE and reason without values';

create or replace function agent.assign_issue(agent text, reason text, sqlstate text, assignee name)
    returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _known text;
    _id    text;
begin
    perform agent_internal.check_role('approver');
    if assign_issue.assignee is not null and not exists (
           select from agent.principal p where p.tenant = agent.current_tenant() and p.name = assign_issue.assignee and p.active) then
        raise exception 'principal "%" does not exist', assign_issue.assignee using errcode = 'WA005';
    end if;
    _known := agent_internal.check_issue(assign_issue.agent, assign_issue.reason, assign_issue.sqlstate);
    insert into agent.issue as i (agent, reason, sqlstate, assignee)
    values (assign_issue.agent, _known, assign_issue.sqlstate, assign_issue.assignee)
    on conflict on constraint issue_pkey do update set assignee = excluded.assignee, changed_by = excluded.changed_by
    returning i.id into _id;
    perform agent_internal.audit('issue.assigned', _id,
                                 jsonb_build_object('agent', assign_issue.agent, 'sqlstate', assign_issue.sqlstate, 'to', assign_issue.assignee));
    return _id;
end;
$$;
comment on function agent.assign_issue(text, text, text, name) is 'Say who works on an issue; NULL: nobody';

create or replace function agent_internal.prune_issues(_keep interval)
    returns void
    language sql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
    delete from agent.issue i
     where i.since < agent_internal.now() - _keep
       and not exists (select from agent_internal.failure f
                        where f.state in ('failed', 'dead') and f.tenant = i.tenant
                          and (f.agent, f.sqlstate, f.reason) = (i.agent, i.sqlstate, i.reason))
$$;
comment on function agent_internal.prune_issues(interval) is 'Remove decisions about failures that are removed';

-- What a person must act on.  A part that cannot be read is a problem itself, and leaves the others.
create or replace function agent_internal.problems()
    returns table (urgency integer, kind text, tenant text, subject text, text text, detail text, fix text, since timestamptz)
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '300ms'
as $$
declare
    _part text;
begin
    foreach _part in array '{reader,slots,attachments,canaries,runs,batches,gaps,budgets,issues,approvals}'::text[] loop
        begin
            -- Times that clients cannot show would keep them from all that is shown.
            return query execute format(
                'select p.urgency, p.kind, p.tenant, p.subject, p.text, p.detail, p.fix,
                        case when p.since between ''2000-01-01'' and ''2200-01-01'' then p.since end from agent_internal.%I p',
                'problem_of_' || _part);
        exception when others then
            return query select 3, 'unread', 'default', _part, format('Problems of %s could not be looked for: %s', _part, left(sqlerrm, 200)),
                                'SQLSTATE ' || sqlstate, null::text, null::timestamptz;
        end;
    end loop;
end;
$$;
comment on function agent_internal.problems() is 'What a person must act on';

-- Announce problems that last: once when one begins, and at most once an hour.  One that is not found has ended.
create or replace function agent_internal.announce_problems(_found jsonb)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _now  constant timestamptz := agent_internal.now();
    _each record;
begin
    if not _found @> '[{"kind": "unread"}]' then
        update agent_internal.problem_standing s set ended_at = _now
         where s.ended_at is null
           and not exists (select from jsonb_to_recordset(_found) as p (kind text, tenant text, subject text)
                            where (p.tenant, p.kind, coalesce(p.subject, '')) = (s.tenant, s.kind, s.subject));
        delete from agent_internal.problem_standing s where s.ended_at < _now - interval '1 day';
    end if;
    insert into agent_internal.problem_standing as s (tenant, kind, subject)
    select p.tenant, p.kind, coalesce(p.subject, '')
      from jsonb_to_recordset(_found) as p (kind text, tenant text, subject text, lasts boolean)
     where p.lasts
     order by 1, 2, 3
    on conflict (tenant, kind, subject) do update set ended_at = null, is_due = true where s.ended_at is not null;
    for _each in
        update agent_internal.problem_standing s set is_due = false, announced_at = _now
          from jsonb_to_recordset(_found) as p (kind text, tenant text, subject text, text text, detail text, fix text, lasts boolean)
         where p.lasts and (p.tenant, p.kind, coalesce(p.subject, '')) = (s.tenant, s.kind, s.subject)
           and s.is_due and (s.announced_at is null or s.announced_at <= _now - interval '1 hour')
        returning p.*
    loop
        perform agent_internal.notify_event(
            'problem', _each.tenant, _each.text, to_jsonb(_each) - 'tenant' - 'lasts',
            _key => concat_ws(' ', 'problem', _each.kind, md5(_each.subject), extract(epoch from _now)));
    end loop;
end;
$$;
comment on function agent_internal.announce_problems(jsonb) is 'Notify people of problems that last';
