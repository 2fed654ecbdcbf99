create table agent.saved_filter (
    tenant   text collate "C" not null default agent.current_tenant() references agent.tenant on delete cascade,
    name     text not null check (length(name) between 1 and 60),
    query    text not null check (length(query) between 1 and 2000),
    saved_by name not null default agent.current_principal(),
    saved_at timestamptz not null default agent_internal.now(),
    primary key (tenant, name)
);

-- What people decided about failures that are the same issue; which failures there are, agent_internal.failure says.
create table agent.issue (
    tenant      text collate "C" not null default agent.current_tenant() references agent.tenant on delete cascade,
    id          text generated always as (md5(agent || '|' || sqlstate || '|' || reason)) stored,
    agent       text not null check (length(agent) <= 200),  -- or the kind of run, where no agent acts
    reason      text not null check (length(reason) <= 1000),
    sqlstate    text not null default '' check (length(sqlstate) <= 5),
    state       text not null default 'open' check (state in ('open', 'resolved', 'muted')),
    since       timestamptz not null default agent_internal.now() check (isfinite(since)),
    resolved_in text check (resolved_in in ('present', 'next')),
    muted_until timestamptz check (muted_until > since and muted_until <= since + interval '8784 hours'),
    assignee    name,
    changed_by  name not null default agent.current_principal(),
    constraint fits_state check ((state = 'muted') = (muted_until is not null) and (state = 'resolved' or resolved_in is null)),
    primary key (tenant, id)
);

-- Problems that were found, so that any process announces each once: agent_internal.announce_problems().
create table agent_internal.problem_standing (
    tenant       text collate "C" not null default agent.current_tenant() references agent.tenant on delete cascade,
    kind         text not null,
    subject      text not null,
    is_due       boolean not null default true,
    announced_at timestamptz,
    ended_at     timestamptz,
    primary key (tenant, kind, subject)
);
