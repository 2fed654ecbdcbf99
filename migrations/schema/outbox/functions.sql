-- Send a message: insert it, with the run that delivers it, in the caller's transaction.
--
-- Args: _run: the run that sends it, whose tenant sends; NULL: the caller's tenant.
-- _kind: which the channel must have; NULL: any.
-- _ordering_key: messages of a channel with equal ones are delivered in order.
-- _key: a channel gets one message for each; a second one is not sent, and this returns the ID of the first.
-- Returns the ID of the delivery.  Raises WA023.
create or replace function agent_internal.enqueue_delivery(
    _channel text, _subject text, _body jsonb, _run bigint default null, _kind text default null,
    _ordering_key text default null, _key text default null, _event text default 'message', _tenant text default null
)
    returns uuid
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _to     agent.channel;
    _id     uuid := gen_random_uuid();
    _sent   bigint;
    _first  uuid;
begin
    _tenant := coalesce(_tenant, (select r.tenant from agent.run r where r.id = _run), agent.current_tenant());
    select * into _to from agent.channel c where c.tenant = _tenant and c.name = _channel;
    if not found or not _to.enabled then
        raise exception 'channel "%" %', _channel, case when _to.name is null then 'does not exist' else 'is disabled' end
            using errcode = 'WA023', hint = agent_internal.suggest(_channel, array(
                select c.name from agent.channel c where c.tenant = _tenant and c.enabled and c.kind = coalesce(_kind, c.kind)));
    elsif _to.kind <> _kind then
        raise exception 'channel "%" is of kind %, not %', _channel, _to.kind, _kind using errcode = 'WA023';
    elsif jsonb_typeof(_body) is distinct from 'object' or length(_body::text) > 262144 then
        raise exception 'the body of a message must be a JSON object of up to 262144 characters' using errcode = 'WA023';
    end if;
    insert into agent.outbox (tenant, id, channel, event, subject, body, key, cause_run, created_by)
    values (_tenant, _id, _channel, _event, left(regexp_replace(coalesce(_subject, ''), '[[:cntrl:]]+', ' ', 'g'), 500), _body, _key,
            _run, coalesce(agent.current_principal(), session_user))
    on conflict (tenant, channel, key) do nothing;
    if not found then
        select o.id into _first from agent.outbox o where o.tenant = _tenant and o.channel = _channel and o.key = _key;
        return _first;
    end if;
    insert into agent.run (tenant, kind, reason, queue_id, change, key, ordering_key, max_attempts, cause_run)
    values (_tenant, 'delivery', 'manual', agent_internal.queue_of('delivery', _channel, _tenant), '{}', _id::text, _ordering_key, 16, _run)
    returning id into _sent;
    update agent.outbox set run_id = _sent where tenant = _tenant and id = _id;
    return _id;
end;
$$;
comment on function agent_internal.enqueue_delivery(text, text, jsonb, bigint, text, text, text, text, text) is 'Send a message through a channel';

-- Send a message, as an application does.
create or replace function agent.send(channel text, subject text, body jsonb)
    returns uuid
    language sql
    set search_path = pg_catalog, pg_temp
as $$ select agent_internal.enqueue_delivery(channel, subject, body) $$;
comment on function agent.send(text, text, jsonb) is 'Send a message through a channel; return the ID of its delivery';

-- Notify people of an event, through all channels that a rule names.  What is wrong with a channel does not affect the
-- transaction of the event.
--
-- Args: _approval: messages to the channel of an approver get a link for it.
create or replace function agent_internal.notify_event(
    _event text, _tenant text, _subject text, _body jsonb, _run bigint default null, _key text default null,
    _approval agent.approval default null
)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _to   agent.channel;
    _link uuid;
    _id   uuid;
begin
    for _to in
        select c.* from agent.notification n join agent.channel c on c.tenant = n.tenant and c.name = n.channel
         where n.tenant = _tenant and n.event = _event and c.enabled
         order by c.name
    loop
        _link := null;
        if _approval.id is not null and _to.principal is not null then
            insert into agent.approval_link (tenant, approval_id, principal, digest, expires_at)
            values (_tenant, _approval.id, _to.principal, _approval.digest, _approval.expires_at)
            returning id into _link;
        end if;
        _id := agent_internal.enqueue_delivery(_to.name, _subject, _body, _run => _run, _key => _key, _event => _event,
                                               _tenant => _tenant);
        if _link is not null then
            update agent.outbox o set link_id = _link where o.tenant = _tenant and o.id = _id and o.link_id is null;
        end if;
    end loop;
end;
$$;
comment on function agent_internal.notify_event(text, text, text, jsonb, bigint, text, agent.approval) is 'Notify people of an event';

create or replace function agent_internal.notify_of_approval()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _most  constant integer := 100000;  -- characters; a message that is too large would fail the run
    _shown agent.pending_approval;
begin
    if exists (select from agent.notification n where n.tenant = new.tenant and n.event = 'approval.requested') then
        select * into _shown from agent.pending_approval p where p.id = new.id;
        _shown.arguments := _shown.arguments || _shown.bound;
        if length(_shown.arguments::text) > _most then
            _shown.arguments := '"(cut)"';
        end if;
        if length(_shown.content::text) > _most then
            _shown.content := '"(cut)"';
        end if;
        perform agent_internal.notify_event(
            'approval.requested', new.tenant,
            format('Approval %s: %s of agent %s', new.id, new.tool, coalesce(new.agent, '-')),
            jsonb_build_object('approval', new.id, 'run', new.run_id, 'agent', new.agent, 'tool', new.tool, 'risk', new.risk,
                               'arguments', _shown.arguments, 'relation', _shown.relation,
                               'key', _shown.key, 'row', _shown.content, 'digest', new.digest, 'expires_at', new.expires_at),
            new.run_id, 'approval ' || new.id, new);
    end if;
    return null;
end;
$$;

create or replace function agent_internal.notify_of_run()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _entered constant boolean := agent_internal.enter();
    _reason constant text := left(new.error ->> 'reason', 2000);
begin
    if new.error ? 'budget' then
        perform agent_internal.notify_event(
            'budget.exceeded', new.tenant, format('Budget %s is exceeded', new.error ->> 'budget'),
            jsonb_build_object('budget', new.error ->> 'budget', 'run', new.id, 'reason', _reason), new.id,
            format('budget %s %s', new.error ->> 'budget',
                   (select agent_internal.period_start(b.period, agent_internal.now()) from agent.budget b
                     where b.tenant = new.tenant and b.name = new.error ->> 'budget')));
    elsif new.kind <> 'delivery' then  -- of a delivery, a message about it could fail in the same way
        perform agent_internal.notify_event(
            'run.' || new.state, new.tenant, format('Run %s is %s', new.id, new.state),
            jsonb_build_object('run', new.id, 'kind', new.kind, 'state', new.state, 'key', new.key, 'reason', _reason), new.id,
            format('run %s %s %s', new.id, new.state, new.lease));
    end if;
    perform agent_internal.leave(_entered);
    return null;
end;
$$;

create or replace function agent_internal.notify_of_gap()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.notify_event(
        'gap', 'default', format('Gap %s: WAL of slot %s was lost', new.id, new.slot),
        jsonb_build_object('gap', new.id, 'slot', new.slot, 'from', new.from_lsn, 'to', new.to_lsn, 'reason', new.reason),
        _key => format('gap %s', new.id));
    return null;
end;
$$;

-- The message leaves by a channel of the run's tenant, after the commit of the step.
create or replace function agent_internal.builtin_send(_run bigint, _kind text, _arguments jsonb)
    returns jsonb
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    return jsonb_build_object('id', agent_internal.enqueue_delivery(
        _arguments ->> 'channel', _arguments ->> 'subject', _arguments - '{channel,subject}'::text[], _run, _kind));
end;
$$;
