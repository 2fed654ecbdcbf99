-- Tenants of what existed before them: each row belongs to one.
--
-- Names are unique within a tenant, and foreign keys contain it: no row refers to a row of another one.  Steps, versions,
-- approvals and the like have the tenant of what they belong to; a run has that of its attachment, unless the attachment
-- takes it from a column of the row.  Models and tools without a tenant are shared; a tenant's own of the same name
-- precedes them.
--
-- Row-level security does not apply to superusers, and so not to functions with their rights.  If one owns the schema, these
-- functions are given to the role walagent_definer: agent_internal.restrict_definers().

-- Policies are evaluated with the search_path of the caller, who can put operators of its own before those of PostgreSQL.
alter function agent_internal.is_member_of(name) set search_path = pg_catalog, pg_temp;

create function agent_internal.sees(_tenant text)
    returns boolean
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$ select agent_internal.all_tenants() or _tenant = agent.current_tenant() $$;
comment on function agent_internal.sees(text) is 'Whether the caller sees the rows of a tenant';

-- Definitions.

alter table agent.model
    add column tenant text collate "C" references agent.tenant,
    add column scope text collate "C" generated always as (coalesce(tenant, '')) stored;
alter table agent.agent drop constraint agent_model_fkey;
alter table agent.model
    alter column tenant set default case when not agent_internal.all_tenants() then agent.current_tenant() end,
    drop constraint model_pkey, add primary key (scope, name);
comment on column agent.model.tenant is 'Tenant that it belongs to; NULL: shared by all';
comment on column agent.model.scope is 'The tenant, or an empty text: with the name, the key';

alter table agent.tool
    add column tenant text collate "C" references agent.tenant,
    add column scope text collate "C" generated always as (coalesce(tenant, '')) stored;
alter table agent.tool
    alter column tenant set default case when not agent_internal.all_tenants() then agent.current_tenant() end,
    drop constraint tool_pkey, add primary key (scope, name);
comment on column agent.tool.tenant is 'Tenant that it belongs to; NULL: shared by all';
comment on column agent.tool.scope is 'The tenant, or an empty text: with the name, the key';

alter table agent.agent
    add column tenant text collate "C" not null default 'default' references agent.tenant,
    add column model_scope text collate "C" not null default '' check (model_scope in ('', tenant));
alter table agent.attachment
    add column tenant text collate "C" not null default 'default' references agent.tenant,
    drop constraint attachment_agent_fkey;
alter table agent.agent
    alter column tenant set default agent.current_tenant(),
    drop constraint agent_pkey, add primary key (tenant, name),
    add foreign key (model_scope, model) references agent.model;
alter table agent.attachment
    alter column tenant set default agent.current_tenant(),
    drop constraint attachment_name_key, add unique (tenant, name), add unique (tenant, id),
    add foreign key (tenant, agent) references agent.agent;
comment on column agent.agent.tenant is 'Tenant that it belongs to';
comment on column agent.agent.model_scope is 'Scope of its model, set by a trigger';
alter table agent.attachment add column tenant_column text;
comment on column agent.attachment.tenant is 'Tenant that it belongs to';
comment on column agent.attachment.tenant_column is 'Column of the table whose text names the tenant of each row; NULL: all runs are of the tenant of the attachment';

alter table agent.budget
    add column tenant text collate "C" not null default 'default' references agent.tenant;
alter table agent.budget
    alter column tenant set default agent.current_tenant(),
    drop constraint budget_name_key, add unique (tenant, name);
comment on column agent.budget.tenant is 'Tenant whose calls it limits';

-- Questions.

alter table agent.session
    add column tenant text collate "C" not null default 'default' references agent.tenant;
alter table agent.question
    add column tenant text collate "C" not null default 'default', drop constraint question_session_id_fkey;
alter table agent_internal.queue
    add column tenant text collate "C" not null default 'default', drop constraint queue_session_id_fkey,
    drop constraint queue_session_id_key;
alter table agent.session
    alter column tenant set default agent.current_tenant(), drop constraint session_pkey, add primary key (tenant, id);
alter table agent.question
    alter column tenant set default agent.current_tenant(),
    add foreign key (tenant, session_id) references agent.session on delete cascade;
alter table agent_internal.queue
    alter column tenant set default agent.current_tenant(), add unique (tenant, session_id),
    add foreign key (tenant, session_id) references agent.session on delete cascade;
drop index agent.question_of_session;
create index question_of_session on agent.question (tenant, session_id, id);
alter table agent.verified_query
    add column tenant text collate "C" not null default 'default' references agent.tenant;
alter table agent.verified_query
    alter column tenant set default agent.current_tenant(),
    drop constraint one_statement_for_a_question,
    add constraint one_statement_for_a_question unique (tenant, owner, question);
alter table agent.glossary
    add column tenant text collate "C" not null default 'default' references agent.tenant;
alter table agent.glossary
    alter column tenant set default agent.current_tenant(), drop constraint glossary_pkey, add primary key (tenant, owner, term);
alter table agent_internal.schema_table
    add column tenant text collate "C" not null default 'default', drop constraint schema_table_owner_role_fkey;
alter table agent_internal.schema_index
    add column tenant text collate "C" not null default 'default' references agent.tenant;
alter table agent_internal.schema_index
    alter column tenant set default agent.current_tenant(), drop constraint schema_index_pkey, add primary key (tenant, owner, role);
alter table agent_internal.schema_table
    alter column tenant set default agent.current_tenant(), drop constraint schema_table_pkey, add primary key (tenant, owner, role, name),
    add foreign key (tenant, owner, role) references agent_internal.schema_index on delete cascade;
comment on column agent.session.tenant is 'Tenant of its owner';
comment on column agent.question.tenant is 'Tenant of the session';
comment on column agent.verified_query.tenant is 'Tenant of its owner';
comment on column agent.glossary.tenant is 'Tenant of its owner';

-- Runs.  Not referenced to agent.tenant: each transaction that inserts runs would lock the tenant.

alter type agent.new_run add attribute tenant text;
alter table agent.step drop constraint step_run_id_fkey;
alter table agent.approval drop constraint approval_run_id_fkey;
alter table agent.spend drop constraint spend_run_id_fkey;
alter table agent.question drop constraint question_run_id_fkey;
alter table agent_internal.merged_change drop constraint merged_change_run_id_fkey;
alter table agent_internal.deferred_change drop constraint deferred_change_run_id_fkey;
alter table agent_internal.cancel_request drop constraint cancel_request_run_id_fkey;
alter table agent.run add column tenant text collate "C" not null default 'default';
alter table agent.run
    alter column tenant set default agent.current_tenant(), drop constraint run_pkey, add primary key (id, tenant);
comment on column agent.run.tenant is 'Tenant in which it is executed';
do $$
declare
    _table text;
begin
    foreach _table in array '{agent.step,agent.approval,agent.spend,agent_internal.merged_change,agent_internal.deferred_change,agent_internal.cancel_request}'::text[] loop
        execute format('alter table %s add column tenant text collate "C" not null default ''default''', _table);
        execute format('alter table %s alter column tenant set default agent.current_tenant(), '
                       'add foreign key (run_id, tenant) references agent.run (id, tenant) on delete cascade', _table);
        execute format('comment on column %s.tenant is ''Tenant of the run''', _table);
    end loop;
    foreach _table in array '{agent.attachment_version,agent.backfill,agent_internal.backfill_seen,agent.gap_choice,agent_internal.budget_use}'::text[] loop
        execute format('alter table %s add column tenant text collate "C" not null default ''default''', _table);
        execute format('alter table %s alter column tenant set default agent.current_tenant()', _table);
        execute format('comment on column %s.tenant is %L', _table,
                       'Tenant of the ' || case _table when 'agent_internal.budget_use' then 'budget' else 'attachment' end);
    end loop;
end;
$$;
alter table agent.approval add unique (id, tenant);
alter table agent.question
    add foreign key (run_id, tenant) references agent.run (id, tenant) on delete set null (run_id);

-- Set the tenant of a row to that of what it belongs to: the run, the attachment or the budget in its first argument.
create function agent_internal.inherit_tenant()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    if tg_argv[0] = 'run' then
        select r.tenant into new.tenant from agent.run r where r.id = new.run_id;
    elsif tg_argv[0] = 'attachment' then
        select coalesce((select a.tenant from agent.attachment a where a.id = new.attachment_id),
                        (select v.tenant from agent.attachment_version v where v.attachment_id = new.attachment_id limit 1),
                        new.tenant) into new.tenant;
    elsif tg_argv[0] = 'budget' then
        select b.tenant into new.tenant from agent.budget b where b.id = new.budget_id;
    end if;
    return new;
end;
$$;
create trigger inherit_tenant before insert on agent.approval for each row execute function agent_internal.inherit_tenant('run');
create trigger inherit_tenant before insert on agent_internal.merged_change
    for each row execute function agent_internal.inherit_tenant('run');
create trigger inherit_tenant before insert on agent_internal.deferred_change
    for each row execute function agent_internal.inherit_tenant('run');
create trigger inherit_tenant before insert on agent_internal.cancel_request
    for each row execute function agent_internal.inherit_tenant('run');
create trigger inherit_tenant before insert on agent.attachment_version
    for each row execute function agent_internal.inherit_tenant('attachment');
create trigger inherit_tenant before insert on agent.backfill
    for each row execute function agent_internal.inherit_tenant('attachment');
create trigger inherit_tenant before insert on agent.gap_choice
    for each row execute function agent_internal.inherit_tenant('attachment');
create trigger inherit_tenant before insert on agent_internal.queue
    for each row when (new.attachment_id is not null) execute function agent_internal.inherit_tenant('attachment');
create trigger inherit_tenant before insert on agent_internal.budget_use
    for each row execute function agent_internal.inherit_tenant('budget');

-- The model of a name for a tenant: its own, or the shared one.
create function agent_internal.model_of(_tenant text, _name text)
    returns agent.model
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select m from agent.model m
     where m.name = _name and m.scope in ('', _tenant)
     order by m.scope desc limit 1
$$;
comment on function agent_internal.model_of(text, text) is 'The model of a name for a tenant: its own, or the shared one';

-- A credential belongs to one tenant, or to the shared models: no tenant's calls are paid with the key of another.
create function agent_internal.check_credential()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (select from agent.model m where m.credential = new.credential and m.scope <> coalesce(new.tenant, '')) then
        raise exception 'credential "%" of model "%" is used by models of another tenant, or by shared ones', new.credential, new.name
            using errcode = 'WA014', hint = 'Use another name, of a variable or file with a key of its own.';
    end if;
    return null;
end;
$$;
create trigger check_credential after insert or update of credential, tenant on agent.model
    for each row when (new.credential is not null) execute function agent_internal.check_credential();

create function agent_internal.tool_of(_tenant text, _name text)
    returns agent.tool
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select t from agent.tool t
     where t.name = _name and t.scope in ('', _tenant)
     order by t.scope desc limit 1
$$;
comment on function agent_internal.tool_of(text, text) is 'The tool of a name for a tenant: its own, or the shared one';

create function agent_internal.bind_model()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    new.model_scope := coalesce((agent_internal.model_of(new.tenant, new.model)).scope, '');
    return new;
end;
$$;
create trigger bind_model before insert or update of model, tenant, model_scope on agent.agent
    for each row execute function agent_internal.bind_model();

-- Raises WA014 if a tenant has no enabled model of the name.
create function agent_internal.check_model(_name text, _tenant text)
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    if (agent_internal.model_of(_tenant, _name)).enabled is not true then
        raise exception 'model "%" does not exist or is not enabled', _name
            using errcode = 'WA014',
                  hint = agent_internal.suggest(_name, (select array_agg(distinct name) from agent.model
                                                         where enabled and scope in ('', _tenant)));
    end if;
end;
$$;
drop function agent_internal.check_model(text);

-- Functions and views that look rows up by name, or insert rows of a run.

alter table agent.attachment add column paused_by name;
comment on column agent.attachment.paused_by is 'Who paused it; null if walagent did, because none of its runs can succeed';

create or replace function agent.pause(name text, reason text default null)
    returns void
    language plpgsql
as $$
begin
    update agent.attachment a set paused = true, paused_reason = pause.reason,
                                  paused_by = coalesce(agent.current_principal(), session_user)
     where a.name = pause.name and a.tenant = agent.current_tenant();
    if not found then
        raise exception 'attachment "%" does not exist', pause.name
            using errcode = 'WA013', hint = agent_internal.suggest(pause.name, (select array_agg(a.name) from agent.attachment a where a.tenant = agent.current_tenant()));
    end if;
end;
$$;

create or replace function agent.resume(name text)
    returns void
    language plpgsql
as $$
begin
    update agent.attachment a set paused = false, paused_reason = null, paused_by = null where a.name = resume.name and a.tenant = agent.current_tenant();
    if not found then
        raise exception 'attachment "%" does not exist', resume.name
            using errcode = 'WA013', hint = agent_internal.suggest(resume.name, (select array_agg(a.name) from agent.attachment a where a.tenant = agent.current_tenant()));
    end if;
    perform pg_notify('walagent_runs', '');
end;
$$;

create or replace function agent_internal.check_budget()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _what  text;
    _word  text;
    _known text[];
begin
    for _what, _word, _known in
        select * from (values
            ('agent', new.agent, array(select name from agent.agent where tenant = new.tenant)),
            ('attachment', new.attachment, array(select name from agent.attachment where tenant = new.tenant)),
            ('model', new.model, array(select name from agent.model where tenant is null or tenant = new.tenant)),
            ('role', new.asker, array(select rolname from pg_roles where new.asker is not null))) as x (what, word, known)
         where word is not null and not word = any (known)
    loop
        raise exception 'budget "%": % "%" does not exist', new.name, _what, _word
            using errcode = 'WA015', hint = agent_internal.suggest(_word, _known);
    end loop;
    return new;
end;
$$;

create or replace function agent_internal.count_version()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _other agent.attachment;
begin
    select * into _other from agent.attachment a where a.tenant = old.tenant and a.agent = old.name and not agent_internal.may_change(a.attached_by) limit 1;
    if found then
        raise exception 'agent "%" is used by attachment "%", which belongs to role "%"', old.name, _other.name, _other.attached_by
            using errcode = '42501';
    end if;
    new.version := old.version + 1;
    new.updated_at := now();
    return new;
end;
$$;

create or replace function agent_internal.touch_attachments()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if coalesce(current_setting('walagent.applying', true), '') <> 'on' then
        -- A broken attachment gets its new version when it is resumed.
        update agent.attachment set version = version + 1 where tenant = new.tenant and agent = new.name and agent_internal.drift_of(definition) is null;
    end if;
    return null;
end;
$$;

create or replace function agent_internal.warn_of_price()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _found record;
begin
    for _found in
        select * from agent.unpriced u
         where u.tenant = new.tenant and case tg_table_name when 'budget' then u.budget = new.name else u.attachment = new.name end
    loop
        raise warning 'model "%" has no price: calls of attachment "%" exceed budget "%" in US dollars',
            _found.model, _found.attachment, _found.budget
            using hint = 'Set input_price and output_price of the model, or limit the budget by max_tokens alone.';
    end loop;
    return null;
end;
$$;

create or replace function agent_internal.record_many(_records jsonb)
    returns table (run_id bigint, unblocked boolean, failed text)
    language plpgsql
    set plan_cache_mode = force_generic_plan  -- planning for each length of the arrays costs more than executing
as $$
#variable_conflict use_column
declare
    _given agent_internal.run_record[] := array(select e from jsonb_populate_recordset(null::agent_internal.run_record, _records) e);
    _held  bigint[];
    _late  bigint[];
    _busy  bigint[];
    _done  bigint[];
    _ended bigint[];
    _freed bigint[];
begin
    if (select count(*) > count(distinct e.run) from unnest(_given) e) then
        raise exception 'records contain a run twice' using errcode = '22023';
    end if;
    with held as (
        select r.id, r.lease_expires_at < agent_internal.now() and e.state is null as late
          from agent.run r join unnest(_given) e on r.id = e.run
         where r.lease_expires_at is not null
           and r.lease = e.lease  -- planted: no-fence-of-runs/record
           and (not r.cancel_requested or e.state in ('cancelled', 'succeeded'))
         order by r.id
           for no key update of r skip locked
    )
    select coalesce(array_agg(id), '{}'), coalesce(array_agg(id) filter (where late), '{}') into _held, _late from held;
    if _late <> '{}' then  -- as agent_internal.fence
        update agent.run r set lease_expires_at = agent_internal.now() + interval '10 seconds' where r.id = any (_late);
    end if;
    -- The runs that wait for these, in a statement of its own: no claim marks another one from here on.
    with free as materialized (
        select r.id from agent.run r where r.blocked_by = any (_held) order by r.id for no key update skip locked
    )
    select array(select r.blocked_by from agent.run r
                  where r.blocked_by = any (_held) and r.id not in (select id from free)) into _busy;
    if _busy <> '{}' then
        _held := array(select e.run from unnest(_given) e
                        where e.run = any (_held) and (e.state is null or e.run <> all (_busy)));
    end if;
    with recorded as (
        insert into agent.step (tenant, run_id, seq, kind, content, input_tokens, cached_tokens, cache_write_tokens,
                                output_tokens, cost, duration_ms)
        select r.tenant, e.run, e.seq, e.kind, e.content, e.usage[1], e.usage[2], e.usage[3], e.usage[4], e.step_cost, e.duration_ms
          from unnest(_given) e join agent.run r on r.id = e.run
         where e.run = any (_held)
           and (e.seq = 0 or exists (select from agent.step s where s.run_id = e.run and s.seq = e.seq - 1))
        on conflict do nothing
        returning run_id
    ), ended as (
        update agent.run r
           set state = e.state, result = e.result,
               error = case when r.cancel_requested and e.state = 'cancelled' then r.error else e.error end,
               tokens = coalesce(e.tokens, 0), cost = e.cost,
               lease_expires_at = null, finished_at = agent_internal.now(), cancel_requested = false
          from unnest(_given) e
         where r.id = e.run and r.id = any (_held) and e.state is not null
           and (e.seq is null or r.id in (select run_id from recorded))
        returning r.id
    )
    select array(select run_id from recorded union select id from ended), array(select id from ended) into _done, _ended;
    _freed := array(select r.blocked_by from agent.run r where r.blocked_by = any (_ended));
    update agent.run r set blocked_by = null where r.blocked_by = any (_freed);
    return query
        select e.run, e.run = any (_freed),
               case when e.run = any (_done) then null
                    when e.run = any (_held)
                         and exists (select from agent.step s where s.run_id = e.run and s.seq = e.seq) then 'WA004'
                    when e.run = any (_held) then 'WA001'
                    else coalesce((
                         select case when r.cancel_requested and e.state is distinct from 'cancelled'
                                           and e.state is distinct from 'succeeded' then 'WA002' else '55P03' end
                            from agent.run r
                           where r.id = e.run and r.lease = e.lease and r.lease_expires_at is not null), 'WA001') end
          from unnest(_given) e;
end;
$$;

-- Who acts as somebody is not the runner, whatever its login may do.
create or replace function agent_internal.is_runner()
    returns boolean
    language sql
    stable
as $$
    select has_table_privilege(coalesce(nullif(current_setting('role'), 'none'), session_user), 'agent.run'::regclass, 'update')
           and not (agent_internal.identity()).named
$$;

create function agent_internal.may_hold(_kind text, _principal name, _tenant text)
    returns boolean
    language sql
    stable
as $$
    select _kind = 'question' and _principal = agent.current_principal() and _tenant = agent.current_tenant() or agent_internal.is_runner()
$$;

create or replace function agent_internal.check_holder(_run bigint)
    returns void
    language plpgsql
    stable
as $$
begin
    if not agent_internal.is_runner()
       and not exists (select from agent.run r where r.id = _run and agent_internal.may_hold(r.kind, r.principal, r.tenant)) then
        raise exception 'role "%" may not hold run %', agent.current_principal(), _run using errcode = '42501';
    end if;
end;
$$;

create or replace function agent_internal.finish_run(
    _run bigint, _lease bigint, _state agent.run_state, _result text, _error jsonb, _tokens bigint, _cost numeric,
    _reserved boolean default false
)
    returns boolean
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _unblocked boolean;
begin
    update agent.run
       set state = _state, result = _result,
           error = case when cancel_requested and _state = 'cancelled' then error else _error end, tokens = _tokens, cost = _cost,
           lease_expires_at = null, finished_at = agent_internal.now(), cancel_requested = false
     where id = _run
       and lease = _lease and lease_expires_at is not null  -- planted: no-fence-of-runs/finish
       and (not cancel_requested or _state in ('cancelled', 'succeeded'))
       and agent_internal.may_hold(kind, principal, tenant);
    if not found then
        perform agent_internal.fence(_run, _lease);  -- raises the reason
    end if;
    _unblocked := agent_internal.unblock(_run);
    if _reserved then
        perform agent_internal.release(_run);
    end if;
    return _unblocked;
end;
$$;

create or replace function agent_internal.resume_session(_session text)
    returns table (run_id bigint, queue_id bigint, wait double precision)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    _queue bigint;
    _run   bigint;
begin
    select q.id into _queue
      from agent_internal.queue q join agent.session s on s.tenant = q.tenant and s.id = q.session_id
     where s.tenant = agent.current_tenant() and s.id = _session and s.owner = agent.current_principal();
    perform agent_internal.expire_leases('question', _queue) where _queue is not null;
    select r.id into _run
      from agent.question q join agent.run r on r.id = q.run_id
     where q.tenant = agent.current_tenant() and q.session_id = _session and r.queue_id = _queue and r.state in ('pending', 'waiting_retry')
     order by q.id desc limit 1
       for no key update of r skip locked;
    if found then
        update agent.run set state = 'pending', next_attempt_at = null where id = _run and state = 'waiting_retry';
        return query select _run, _queue, null::double precision;
        return;
    end if;
    return query
        select null::bigint, _queue, extract(epoch from max(r.lease_expires_at) - agent_internal.now())::double precision
          from agent.question q join agent.run r on r.id = q.run_id
         where q.tenant = agent.current_tenant() and q.session_id = _session and r.queue_id = _queue and r.state = 'running'
        having count(*) > 0;
end;
$$;

create or replace function agent_internal.column_drift(_relation regclass, _definition jsonb)
    returns text
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select format('column "%s" of %s does not exist; it is used by %s', n.name, _relation, n.use)
      from (select jsonb_array_elements_text(_definition -> 'key_columns'), 'the primary key'
            union all select jsonb_array_elements_text(_definition -> 'condition_columns'), 'the condition'
            union all select jsonb_array_elements_text(nullif(_definition -> 'columns', 'null')), 'columns'
            union all select jsonb_array_elements_text(nullif(_definition -> 'ordering_key', 'null')), 'the ordering key'
            union all select _definition ->> 'tenant_column', 'tenant' where _definition ->> 'tenant_column' is not null
            union all select jsonb_array_elements_text(_definition -> 'writes'), 'writes'
            union all select b.value, format('argument "%s" of tool "%s"', b.key, t ->> 'name')
                        from jsonb_array_elements(_definition -> 'tools') t, jsonb_each_text(t -> 'bind') b) as n (name, use)
     where not exists (select from pg_attribute where attrelid = _relation and attname = n.name and attnum > 0 and not attisdropped)
     limit 1
$$;

create or replace view agent.budget_overview with (security_invoker = on) as
    select b.name, b.agent, b.attachment, b.model, b.asker, b.period, b.on_exceeded,
           b.max_cost, case when u.starts_at < p.start then 0 else u.spent_cost end as spent_cost, u.reserved_cost,
           b.max_tokens, case when u.starts_at < p.start then 0 else u.spent_tokens end as spent_tokens, u.reserved_tokens,
           (select count(*) from agent.run r
             where r.state = 'waiting_retry' and r.error ->> 'budget' = b.name and r.tenant = b.tenant) as waiting,
           agent_internal.period_end(b.period, agent_internal.now()) as resets_at,
           b.tenant
      from agent.budget b
           join agent_internal.budget_use u on u.budget_id = b.id
           cross join agent_internal.period_start(b.period, agent_internal.now()) as p (start);
comment on column agent.budget_overview.tenant is 'Tenant whose calls it limits';

create or replace view agent.unpriced with (security_invoker = on) as
    select b.name as budget, a.name as attachment, m.name as model, b.tenant
      from agent.budget b
           join agent.attachment a on a.tenant = b.tenant
           join agent.agent g on g.tenant = a.tenant and g.name = a.agent
           cross join agent_internal.model_of(g.tenant, g.model) m
     where b.max_cost is not null and b.on_exceeded <> 'warn' and b.asker is null
       and (m.input_price is null or m.output_price is null)
       and coalesce(b.agent, g.name) = g.name and coalesce(b.attachment, a.name) = a.name
       and coalesce(b.model, m.name) = m.name;
comment on column agent.unpriced.tenant is 'Tenant of budget and attachment';

drop function agent_internal.may_hold(text, name);

-- Who sees what.

select agent_internal.isolate(t)
  from unnest('{agent.agent,agent.attachment,agent.attachment_version,agent.backfill,agent_internal.backfill_seen,
                agent.budget,agent_internal.budget_use,agent.spend,agent_internal.queue,agent.run,agent.step,agent.approval,
                agent_internal.merged_change,agent_internal.deferred_change,agent_internal.cancel_request,agent.gap_choice,
                agent_internal.audit_head}'::regclass[]) t;
select agent_internal.isolate('agent.model', true), agent_internal.isolate('agent.tool', true);

-- A queue can have runs of several tenants: who lets one continue wakes the queue, whichever tenant it belongs to.
create policy of_definers on agent_internal.queue using ((select agent_internal.has_owner_rights()));

-- What belongs to its owner is seen by it alone: in its tenant.
do $$
declare
    _table regclass;
begin
    foreach _table in array '{agent.session,agent.question,agent.verified_query,agent.glossary,agent_internal.schema_index,agent_internal.schema_table}'::regclass[] loop
        execute format('alter table %s force row level security', _table);
        execute format('create policy tenant on %s as restrictive '
                       'using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()))', _table);
        execute format('create policy reading on %s as restrictive for select using ((select agent_internal.may_read()))', _table);
        if _table <> 'agent.question'::regclass then
            execute format('alter policy of_its_owner on %s using (owner = (select agent.current_principal())) '
                           'with check (owner = (select agent.current_principal()))', _table);
        end if;
    end loop;
end;
$$;
alter policy of_its_session on agent.question
    using (exists (select from agent.session s
                    where s.tenant = question.tenant and s.id = question.session_id and s.owner = (select agent.current_principal())));
create policy of_definers on agent.session using ((select agent_internal.has_owner_rights()));
create policy of_definers on agent.question using ((select agent_internal.has_owner_rights()));

-- Functions that keep the rights of the owner of the schema, and check tenants themselves.
create table agent_internal.owner_function (
    function regprocedure primary key
);
comment on table agent_internal.owner_function is 'Functions with the rights of the owner of the schema that the role walagent_definer does not suffice for';
revoke all on agent_internal.owner_function from public;

create function agent_internal.keep_rights(_function regprocedure)
    returns void
    language sql
as $$ insert into agent_internal.owner_function (function) values (_function) on conflict do nothing $$;
comment on function agent_internal.keep_rights(regprocedure) is 'Let a function keep the rights of the owner of the schema; used by migrations';

select agent_internal.keep_rights(p.oid)
  from pg_catalog.pg_proc p
 where p.prosecdef
   and (p.pronamespace = 'agent_signed'::regnamespace
        or p.pronamespace = 'agent'::regnamespace and p.proname = 'cancel'
        or p.pronamespace = 'agent_internal'::regnamespace
           and p.proname <> all ('{mac,assume,identity,find_token,audit,post_event}'));

-- Give the functions with the rights of the owner of the schema to a role that row-level security applies to, if it does
-- not apply to the owner.
create function agent_internal.restrict_definers()
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _owner    name;
    _function regprocedure;
begin
    select r.rolname into _owner
      from pg_namespace n join pg_roles r on r.oid = n.nspowner
     where n.nspname = 'agent_internal' and r.rolsuper;
    if _owner is null then
        return;
    end if;
    if not exists (select from pg_roles where rolname = 'walagent_definer') then
        begin
            create role walagent_definer nologin;
        exception when duplicate_object or unique_violation then
            null;  -- another database of the server creates it now
        end;
    end if;
    grant usage on schema agent, agent_internal to walagent_definer;
    grant select, insert, update, delete on all tables in schema agent, agent_internal to walagent_definer;
    grant usage on all sequences in schema agent, agent_internal to walagent_definer;
    grant execute on all functions in schema agent, agent_internal to walagent_definer;
    for _function in
        select p.oid from pg_proc p join pg_roles r on r.oid = p.proowner
         where p.pronamespace in ('agent'::regnamespace, 'agent_internal'::regnamespace)
           and p.prosecdef and r.rolname = _owner
           and p.oid not in (select f.function from agent_internal.owner_function f)
    loop
        execute format('alter function %s owner to walagent_definer', _function);
    end loop;
end;
$$;
comment on function agent_internal.restrict_definers() is 'Let row-level security apply to functions with the rights of the owner';

revoke all on function agent_internal.sees(text), agent_internal.inherit_tenant(),
    agent_internal.model_of(text, text), agent_internal.tool_of(text, text), agent_internal.bind_model(),
    agent_internal.check_credential(), agent_internal.check_model(text, text), agent_internal.may_hold(text, name, text), agent_internal.keep_rights(regprocedure),
    agent_internal.restrict_definers() from public;

select agent_internal.permit(c, 'execute on function agent_internal.model_of(text, text)')
  from unnest('{viewer,developer,asker,member}'::text[]) c;
select agent_internal.permit('developer',
    'execute on function agent_internal.tool_of(text, text), agent_internal.bind_model(), agent_internal.check_model(text, text)');

-- Roles that were granted before need what is new: the functions, and what policies call.
do $$
declare
    _role name;
begin
    for _role in select * from agent_internal.holders('runner') loop
        perform agent.grant_runner(_role);
    end loop;
    for _role in
        select distinct r.rolname
          from pg_class c, pg_catalog.aclexplode(c.relacl) x, pg_catalog.pg_roles r
         where c.relnamespace in ('agent'::regnamespace, 'agent_internal'::regnamespace) and r.oid = x.grantee
           and x.grantee <> c.relowner
    loop
        execute format('grant execute on function agent_internal.all_tenants(), agent_internal.identity(), agent_internal.has_owner_rights(), agent_internal.may_read(), '
                       'agent.current_tenant(), agent.current_principal(), agent.has_scope(text) to %I', _role);
    end loop;
end;
$$;
