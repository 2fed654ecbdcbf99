create table agent.approval (
    id            bigint primary key generated always as identity,
    run_id        bigint not null,
    call_id       text not null,
    tool          text not null,
    arguments     jsonb not null,
    digest        text not null,
    run_as        name not null,
    state         text not null default 'pending'
                    check (state in ('pending', 'approved', 'rejected', 'expired', 'cancelled')),
    asked_at      timestamptz not null default now(),
    expires_at    timestamptz not null,
    decided_by    name,
    decided_at    timestamptz,
    reason        text,
    tenant        text collate "C" not null default agent.current_tenant(),
    agent         text,
    risk          text check (risk in ('low', 'medium', 'high', 'critical')),
    requested_by  name[] not null default '{}',
    four_eyes     boolean not null default false,
    edited        jsonb,
    edited_digest text,
    constraint decided_has_decider check ((state in ('approved', 'rejected')) = (decided_by is not null)),
    foreign key (run_id, tenant) references agent.run (id, tenant) on delete cascade,
    unique (id, tenant),
    constraint edited_is_approved check ((edited is not null) = (edited_digest is not null)
                                             and (edited is null or state = 'approved'))
);

-- A call gets another approval only after one that ended without a decision.
create unique index asked_once_per_call on agent.approval (run_id, call_id) where state = 'pending';

create index approval_pending on agent.approval (expires_at) where state = 'pending';

-- Else each removed run would read all approvals.
create index approval_run on agent.approval (run_id);
