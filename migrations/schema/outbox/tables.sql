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

create table agent.notification (
    tenant  text collate "C" not null default agent.current_tenant(),
    event   text not null check (event in ('approval.requested', 'run.dead', 'run.needs_review', 'budget.exceeded', 'gap', 'problem')),
    channel text not null,
    primary key (tenant, event, channel),
    foreign key (tenant, channel) references agent.channel on update cascade on delete cascade
);

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
