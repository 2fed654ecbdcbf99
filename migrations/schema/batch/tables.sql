-- Batches of a provider: calls of many runs that it answers within a day, at a lower price.
create table agent.batch (
    id               bigint primary key generated always as identity,
    model            text not null,         -- its label: the name, after that of its tenant
    model_id         text not null,
    state            text not null default 'forming' check (state in ('forming', 'submitted', 'ended')),
    provider_id      text,
    items            integer not null check (items >= 0),
    answered         integer not null default 0 check (answered >= 0),
    unanswered       integer not null default 0 check (unanswered >= 0),
    unused           integer not null default 0 check (unused >= 0),
    requeued         integer not null default 0 check (requeued >= 0),
    cost             numeric check (cost >= 0 and cost < 'infinity'),
    unused_cost      numeric check (unused_cost >= 0 and unused_cost < 'infinity'),
    attempts         integer not null default 0,  -- since the state changed
    error            text,
    formed_at        timestamptz not null default agent_internal.now(),
    tried_at         timestamptz,           -- when it was first about to be submitted
    submitted_at     timestamptz,
    ended_at         timestamptz,
    next_at          timestamptz,           -- when it is looked at again
    lease            bigint not null default 0,
    lease_expires_at timestamptz,
    tenant           text collate "C" not null default agent.current_tenant() references agent.tenant,
    constraint columns_fit_state check (
        (state = 'ended') = (ended_at is not null) and (state = 'ended') = (next_at is null)
        and (state <> 'submitted' or provider_id is not null)),
    unique (id, tenant)
);

create index batch_due on agent.batch (next_at) where next_at is not null;

-- Calls of runs that wait for a batch, or for its reply.  The prompt is kept from the moment that the run waits until the
-- provider has it, the reply until it is a step of the run.
create table agent_internal.batch_item (
    run_id     bigint not null,
    seq        integer not null check (seq >= 0),  -- of the step that will have the reply
    batch_id   bigint,                             -- NULL: of none yet
    custom_id  text unique,                        -- at the provider
    state      text not null default 'waiting' check (state in ('waiting', 'answered', 'unanswered', 'requeued', 'used')),
    lease      bigint not null,                    -- under which the call was reserved
    call       integer,                            -- number of the reservation; NULL: no budget counts it
    model      text not null,
    model_id   text not null,
    body       json,                               -- as it is sent; json, as jsonb cannot store all of it
    size       integer not null,                   -- of the body, in bytes
    answer     json,                               -- of the provider, as it came
    why        text,                               -- why there is no answer
    created_at timestamptz not null default agent_internal.now(),
    tenant     text collate "C" not null default agent.current_tenant(),
    primary key (run_id, seq),
    foreign key (run_id, tenant) references agent.run (id, tenant) on delete cascade,
    foreign key (batch_id, tenant) references agent.batch (id, tenant) on delete cascade
);

create index batch_item_unbatched on agent_internal.batch_item (tenant, model, model_id, created_at)
    where batch_id is null and state = 'waiting';

create index batch_item_of_batch on agent_internal.batch_item (batch_id) where state = 'waiting';

create index batch_item_replied on agent_internal.batch_item (run_id) where state in ('answered', 'unanswered', 'requeued');

create index batch_requeued on agent.batch (tenant, model, id) where requeued > 0;
