-- The outbox: messages to the outside, channels that they leave by, and rules that notify people.
--
-- A message is a row, which commits with what it is about.  Delivering it is a run of the kind `delivery`: so it is
-- retried, ordered, limited, shown and counted as any other run.  The ID of the row is that of the delivery: the same in
-- each attempt, so that a receiver can recognize a duplicate.
--
-- Where a channel leads is a row; keys are named there and come from the environment of the process that delivers, whose
-- configuration says which hosts it can reach and which keys they get.
--
-- SQLSTATE: WA023  a message, channel or link is not valid

-- For a CHECK: true, or an error.  A webhook leads to a host by its name, or by an address as everybody reads it, and never
-- to a link-local one, where clouds serve the keys of a machine.  What a name leads to is checked by who connects.
create function agent_internal.leads_to_host(_url text)
    returns boolean
    language plpgsql
    immutable
as $$
declare
    _host constant text := lower(substring(_url from '^[Hh][Tt][Tt][Pp][Ss]?://(\[[^]]*\]|[^/:?#]*)'));
    _why text;
begin
    if _host ~ '^\[' then
        begin
            _why := case
                when trim('[]' from _host)::inet <<= any ('{::/96,::ffff:0:0/96,64:ff9b::/96,2002::/16}') and _host <> '[::1]' then 'holds an address of IPv4'
                when trim('[]' from _host)::inet <<= 'fe80::/10' then 'is link-local' end;
        exception when invalid_text_representation then
            _why := 'is not an address of IPv6';
        end;
    elsif _host ~ '^((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])[.]){3}(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])$' then
        _why := case when _host::inet <<= '169.254.0.0/16' then 'is link-local' end;
    elsif _host ~ '^(0x[0-9a-f]*|[0-9]+)([.](0x[0-9a-f]*|[0-9]*))*$' then
        _why := 'is an address in another form than 192.0.2.1';
    elsif _host !~ '^[a-z0-9_-]+([.][a-z0-9_-]+)*[.]?$' then
        _why := 'is not a name of a host';
    end if;
    if _why is not null then
        raise exception 'the host "%" of a webhook %', _host, _why
            using errcode = 'WA023', hint = 'Name the host, such as ops.acme.test; other letters than a-z as xn--.';
    end if;
    return true;
end;
$$;
comment on function agent_internal.leads_to_host(text) is 'Whether a URL leads to a host that a webhook may name; raises otherwise';

create table agent.channel (
    tenant     text collate "C" not null default agent.current_tenant() references agent.tenant on delete cascade,
    name       text not null check (name ~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$'),
    kind       text not null check (kind in ('webhook', 'email', 'slack')),
    target     text not null default '' check (length(target) <= 2000),
    secret     text check (secret ~ '^[A-Za-z_][A-Za-z0-9_]{0,127}$'),
    principal  name,
    enabled    boolean not null default true,
    created_at timestamptz not null default now(),
    primary key (tenant, name),
    foreign key (tenant, principal) references agent.principal on delete set null (principal),
    constraint target_fits_kind check (case kind
        when 'webhook' then target ~ '^https?://[^/@\s]+(/\S*)?$' and secret is not null
        when 'email' then target ~ '^[^@\s<>,;"]+@[^@\s<>,;"]+$' and secret is null
        else target ~ '^[CDGU][A-Z0-9]{2,30}$|^$' and (target = '') = (secret is not null) end),
    constraint target_is_a_host check (kind <> 'webhook' or agent_internal.leads_to_host(target)),
    constraint holds_no_key check (agent_internal.no_key(target, 'target') and agent_internal.no_key(secret, 'secret')),
    constraint target_has_no_secret check (target !~* 'hooks\.slack\.com/|xox[a-z]-|[?&](token|key|secret|signature|password)=')
);
comment on table agent.channel is 'Channels: where messages go';
comment on column agent.channel.tenant is 'Tenant that it belongs to';
comment on column agent.channel.name is 'Name that rules and tools use';
comment on column agent.channel.kind is 'webhook, email or slack';
comment on column agent.channel.target is 'webhook: a URL; email: an address; slack: the ID of a channel or user, or empty for an incoming webhook';
comment on column agent.channel.secret is 'Name of a variable or credential, never its value. webhook: the signing key; slack without a target: the URL of the incoming webhook';
comment on column agent.channel.principal is 'Approver who reads it: messages about approvals have a link with which this principal decides; NULL: no links';
comment on column agent.channel.enabled is 'Whether messages are accepted';
comment on column agent.channel.created_at is 'Time of creation';

create table agent.notification (
    tenant  text collate "C" not null default agent.current_tenant(),
    event   text not null check (event in ('approval.requested', 'run.dead', 'run.needs_review', 'budget.exceeded', 'gap')),
    channel text not null,
    primary key (tenant, event, channel),
    foreign key (tenant, channel) references agent.channel on update cascade on delete cascade
);
comment on table agent.notification is 'Rules: what is sent to which channel';
comment on column agent.notification.tenant is 'Tenant of event and channel';
comment on column agent.notification.event is 'approval.requested, run.dead, run.needs_review, budget.exceeded (once for each budget and period) or gap';
comment on column agent.notification.channel is 'Channel that gets a message';

create table agent.outbox (
    tenant     text collate "C" not null,
    id         uuid not null default gen_random_uuid(),
    channel    text not null,
    event      text not null default 'message',
    subject    text not null default '' check (subject !~ '[[:cntrl:]]' and length(subject) <= 500),
    body       jsonb not null check (jsonb_typeof(body) = 'object'),
    key        text,
    link_id    uuid,
    run_id     bigint,
    cause_run  bigint,
    created_by name not null,
    created_at timestamptz not null default now(),
    primary key (tenant, id),
    unique (tenant, channel, key),
    foreign key (tenant, channel) references agent.channel on update cascade on delete cascade,
    foreign key (run_id, tenant) references agent.run (id, tenant) on delete cascade
);
create index outbox_run on agent.outbox (run_id);
comment on table agent.outbox is 'Outbox: messages to the outside, each delivered by a run';
comment on column agent.outbox.tenant is 'Tenant that sends it';
comment on column agent.outbox.id is 'ID of the delivery, the same in each attempt';
comment on column agent.outbox.channel is 'Channel that it leaves by';
comment on column agent.outbox.event is 'Event of the rule that sent it; message: a tool or an application';
comment on column agent.outbox.subject is 'Subject, one line';
comment on column agent.outbox.body is 'What is sent: {"text"}, and more for programs';
comment on column agent.outbox.key is 'Key of what it is about: a channel gets one message for each; NULL: no limit';
comment on column agent.outbox.link_id is 'Link that is sent with it; only a rule can set one';
comment on column agent.outbox.run_id is 'Run that delivers it; it has state, attempts and error';
comment on column agent.outbox.cause_run is 'Run that sent it, or that it is about';
comment on column agent.outbox.created_by is 'Principal that sent it';
comment on column agent.outbox.created_at is 'Time of the insert';

-- Links with which one approver decides one call, once.  The token is not stored: it is the ID and a code over the row.
create table agent.approval_link (
    tenant      text collate "C" not null,
    id          uuid not null default gen_random_uuid(),
    approval_id bigint not null,
    principal   name not null,
    digest      text not null,
    expires_at  timestamptz not null,
    used_at     timestamptz,
    primary key (tenant, id),
    foreign key (tenant, principal) references agent.principal on delete cascade,
    foreign key (approval_id, tenant) references agent.approval (id, tenant) on delete cascade
);
create index approval_link_of on agent.approval_link (approval_id);
comment on table agent.approval_link is 'Links that decide approvals: each for one approver and one digest, once';
comment on column agent.approval_link.tenant is 'Tenant of approver and approval';
comment on column agent.approval_link.id is 'First part of the token';
comment on column agent.approval_link.approval_id is 'Approval that it decides';
comment on column agent.approval_link.principal is 'Approver who decides with it';
comment on column agent.approval_link.digest is 'Digest of the call that was shown';
comment on column agent.approval_link.expires_at is 'When it expires, with its approval';
comment on column agent.approval_link.used_at is 'When it decided';

-- Send a message: insert it, with the run that delivers it, in the caller's transaction.
--
-- Args: _run: the run that sends it, whose tenant sends; NULL: the caller's tenant.
-- _kind: which the channel must have; NULL: any.
-- _ordering_key: messages of a channel with equal ones are delivered in order.
-- _key: a channel gets one message for each; a second one is not sent, and this returns the ID of the first.
-- Returns the ID of the delivery.  Raises WA023.
create function agent_internal.enqueue_delivery(
    _channel text, _subject text, _body jsonb, _run bigint default null, _kind text default null,
    _ordering_key text default null, _key text default null, _event text default 'message'
)
    returns uuid
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _tenant text := coalesce((select r.tenant from agent.run r where r.id = _run), agent.current_tenant());
    _to     agent.channel;
    _id     uuid := gen_random_uuid();
    _sent   bigint;
    _first  uuid;
begin
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
    values (_tenant, 'delivery', 'manual', agent_internal.queue_of('delivery', _channel, _tenant), '{}', _id::text, _ordering_key, 8, _run)
    returning id into _sent;
    update agent.outbox set run_id = _sent where tenant = _tenant and id = _id;
    return _id;
end;
$$;
comment on function agent_internal.enqueue_delivery(text, text, jsonb, bigint, text, text, text, text) is 'Send a message through a channel';

-- The queue is updated at commit: every claim needs it.
create function agent_internal.wake_delivery()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    update agent_internal.queue q set queued = true
      from agent.run r where r.id = new.run_id and q.id = r.queue_id and not q.queued;
    perform pg_notify('walagent_runs', '');
    return null;
end;
$$;
create constraint trigger wake_delivery
    after update of run_id on agent.outbox
    deferrable initially deferred
    for each row
    execute function agent_internal.wake_delivery();

-- Send a message, as an application does.
create function agent.send(channel text, subject text, body jsonb)
    returns uuid
    language sql
as $$ select agent_internal.enqueue_delivery(channel, subject, body) $$;
comment on function agent.send(text, text, jsonb) is 'Send a message through a channel; return the ID of its delivery';

create view agent.delivery with (security_invoker = on) as
    select o.tenant, o.id, o.channel, c.kind, o.event, o.subject, o.run_id, r.state, r.attempt, r.next_attempt_at,
           r.error ->> 'reason' as error, r.result, o.cause_run, o.created_by, o.created_at, r.finished_at
      from agent.outbox o
           join agent.channel c on c.tenant = o.tenant and c.name = o.channel
           left join agent.run r on r.id = o.run_id;
comment on view agent.delivery is 'Messages of the outbox with the state of their delivery';
comment on column agent.delivery.tenant is 'Tenant that sends it';
comment on column agent.delivery.id is 'ID of the delivery, the same in each attempt';
comment on column agent.delivery.channel is 'Channel that it leaves by';
comment on column agent.delivery.kind is 'webhook, email or slack';
comment on column agent.delivery.event is 'Event of the rule that sent it; message: a tool or an application';
comment on column agent.delivery.subject is 'Subject';
comment on column agent.delivery.run_id is 'Run that delivers it';
comment on column agent.delivery.state is 'State of the run';
comment on column agent.delivery.attempt is 'Number of attempts';
comment on column agent.delivery.next_attempt_at is 'When waiting_retry ends';
comment on column agent.delivery.error is 'Reason of a failure or wait';
comment on column agent.delivery.result is 'What the receiver answered';
comment on column agent.delivery.cause_run is 'Run that sent it, or that it is about';
comment on column agent.delivery.created_by is 'Principal that sent it';
comment on column agent.delivery.created_at is 'Time of the insert';
comment on column agent.delivery.finished_at is 'Time of the end';

-- Notify people of an event, through all channels that a rule names.  What is wrong with a channel does not affect the
-- transaction of the event.
--
-- Args: _approval: messages to the channel of an approver get a link for it.
create function agent_internal.notify_event(
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
        _id := agent_internal.enqueue_delivery(_to.name, _subject, _body, _run => _run, _key => _key, _event => _event);
        if _link is not null then
            update agent.outbox o set link_id = _link where o.tenant = _tenant and o.id = _id and o.link_id is null;
        end if;
    end loop;
end;
$$;
comment on function agent_internal.notify_event(text, text, text, jsonb, bigint, text, agent.approval) is 'Notify people of an event';

create function agent_internal.notify_of_approval()
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
create trigger notify_of_approval
    after insert on agent.approval
    for each row execute function agent_internal.notify_of_approval();

create function agent_internal.notify_of_run()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
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
    return null;
end;
$$;
create trigger notify_of_run
    after update of state on agent.run
    for each row when (new.state in ('dead', 'needs_review') and old.state <> new.state
                       or new.state in ('waiting_retry', 'failed') and new.error ? 'budget')
    execute function agent_internal.notify_of_run();

create function agent_internal.notify_of_gap()
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
create trigger notify_of_gap
    after insert on agent.gap
    for each row execute function agent_internal.notify_of_gap();

-- The token of a link.
create function agent_internal.link_token(_link agent.approval_link)
    returns text
    language sql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
    select _link.id || '.' || agent_internal.mac(format('approval link %s', jsonb_build_array(
        _link.tenant, _link.id, _link.approval_id, _link.principal, _link.digest, extract(epoch from _link.expires_at))))
$$;

-- What a token of a link stands for, without changing anything.
--
-- Returns: refusal: why it cannot decide; NULL: it can.
create function agent_internal.open_link(_token text, out link agent.approval_link, out approval agent.approval, out refusal text)
    language plpgsql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    if _token ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.[0-9a-f]{64}$' then
        select * into link from agent.approval_link l where l.id = split_part(_token, '.', 1)::uuid;
    end if;
    if link.id is null or sha256(convert_to(agent_internal.link_token(link), 'utf8')) <> sha256(convert_to(_token, 'utf8')) then
        link := null;
        refusal := 'the link is not valid';
        return;
    end if;
    select * into approval from agent.approval a where a.id = link.approval_id;
    refusal := case
        when link.used_at is not null then 'the link has been used'
        when link.expires_at <= agent_internal.now() then 'the link has expired'
        when approval.id is null or approval.digest <> link.digest then 'the call is not the one that the link is for'
        when approval.state <> 'pending' then format('the call is already %s', approval.state)
        when not exists (select from agent.principal p join agent.tenant t on t.name = p.tenant
                          where p.tenant = link.tenant and p.name = link.principal and p.active and t.active)
            then 'the approver of the link is not active' end;
end;
$$;
comment on function agent_internal.open_link(text) is 'What a token of a link stands for';

-- Decide as the approver of a link.
--
-- Returns why it was refused; NULL: it decided.
create function agent_internal.use_link(_token text, _approve boolean, _reason text default null)
    returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _opened record;
    _why    text;
begin
    _opened := agent_internal.open_link(_token);
    -- Approvals are locked first; what holds after that is what counts.
    perform from agent.approval a where a.id = (_opened.approval).id for no key update;
    perform from agent.approval_link l where l.id = (_opened.link).id for update;
    _opened := agent_internal.open_link(_token);
    _why := coalesce(_opened.refusal, agent_internal.decide_as(
        (_opened.link).tenant, (_opened.link).principal, (_opened.link).approval_id, _approve, _reason));
    if _why is null then
        update agent.approval_link l set used_at = agent_internal.now() where l.id = (_opened.link).id;
    elsif (_opened.link).id is not null then  -- anyone can send tokens of no link, without end
        perform agent_internal.audit('approval.refused', (_opened.link).approval_id::text, jsonb_build_object(
            'by', 'link', 'link', (_opened.link).id, 'principal', (_opened.link).principal, 'reason', _why), (_opened.link).tenant);
    end if;
    return _why;
end;
$$;
comment on function agent_internal.use_link(text, boolean, text) is 'Decide as the approver of a link; return why not';

-- Decide a call in the name of a principal whom the caller has recognized.  Returns why it was refused; NULL: decided.
create function agent_internal.decide_as(_tenant text, _principal name, _approval bigint, _approve boolean, _reason text)
    returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.assume(_tenant, _principal);
    perform agent_internal.decide(_approval, case when _approve then 'approved' else 'rejected' end,
                                  case when not _approve then nullif(_reason, '') end);
    return null;
exception
    when sqlstate 'WA005' or sqlstate 'WA006' or insufficient_privilege then
        return sqlerrm;
end;
$$;

-- Decide as the principal of a Slack user: the one with this user in its metadata, in the tenant of the approval.
create function agent_internal.decide_from_slack(_user text, _approval bigint, _digest text, _approve boolean)
    returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _row    agent.approval;
    _tenant text;
    _who    name[];
    _why    text;
begin
    select * into _row from agent.approval a where a.id = _approval for no key update;
    _tenant := _row.tenant;
    _who := array(select p.name from agent.principal p
                   where p.tenant = _tenant and p.active and p.metadata ->> 'slack_user' = _user);
    _why := case
        when _row.id is null then format('approval %s does not exist', _approval)
        when _row.digest <> _digest then 'the call is not the one that the message shows'
        when cardinality(_who) <> 1 then 'no principal has this Slack user'
        else agent_internal.decide_as(_tenant, _who[1], _approval, _approve, null) end;
    if _why is not null then
        perform agent_internal.audit('approval.refused', _approval::text,
            jsonb_build_object('by', 'slack', 'slack_user', _user, 'principal', _who[1], 'reason', _why), _tenant);
    end if;
    return _why;
end;
$$;
comment on function agent_internal.decide_from_slack(text, bigint, text, boolean) is 'Decide as the principal of a Slack user; return why not';

create trigger audit_change after insert or update or delete on agent.channel
    for each row execute function agent_internal.audit_change('channel', 'name', 'kind,enabled,principal');
create trigger audit_change after insert or update or delete on agent.notification
    for each row execute function agent_internal.audit_change('notification', 'event,channel', '');

select agent_internal.isolate(t) from unnest('{agent.channel, agent.notification, agent.outbox, agent.approval_link}'::regclass[]) t;
revoke all on agent.channel, agent.notification, agent.outbox, agent.approval_link, agent.delivery from public;
revoke all on function
    agent_internal.leads_to_host(text), agent_internal.enqueue_delivery(text, text, jsonb, bigint, text, text, text, text), agent_internal.wake_delivery(),
    agent.send(text, text, jsonb), agent_internal.notify_event(text, text, text, jsonb, bigint, text, agent.approval),
    agent_internal.notify_of_approval(), agent_internal.notify_of_run(), agent_internal.notify_of_gap(),
    agent_internal.link_token(agent.approval_link), agent_internal.open_link(text), agent_internal.use_link(text, boolean, text),
    agent_internal.decide_as(text, name, bigint, boolean, text), agent_internal.decide_from_slack(text, bigint, text, boolean) from public;
select agent_internal.permit('viewer', 'select on agent.channel, agent.notification, agent.outbox, agent.delivery');
select agent_internal.permit('runner', 'select on agent.channel, agent.notification, agent.outbox, agent.approval_link, agent.delivery',
    'execute on function agent_internal.enqueue_delivery(text, text, jsonb, bigint, text, text, text, text), '
    'agent_internal.link_token(agent.approval_link), agent_internal.open_link(text), agent_internal.use_link(text, boolean, text), '
    'agent_internal.decide_from_slack(text, bigint, text, boolean)');
