create table agent.saved_filter (
    tenant   text collate "C" not null default agent.current_tenant() references agent.tenant on delete cascade,
    name     text not null check (length(name) between 1 and 60),
    query    text not null check (length(query) between 1 and 2000),
    saved_by name not null default agent.current_principal(),
    saved_at timestamptz not null default agent_internal.now(),
    primary key (tenant, name)
);
