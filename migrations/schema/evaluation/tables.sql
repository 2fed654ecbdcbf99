-- Changes to replay, with what is expected of a run.  Neither refers to runs: runs are pruned, and changes stay.
create table agent.dataset (
    id         bigint primary key generated always as identity,
    name       text not null check (length(name) between 1 and 60),
    attachment text not null,
    relation   text not null,
    columns    jsonb not null,  -- of the table when it was made: [name, type, ...]
    source     text not null check (source in ('runs', 'table')),
    made_by    name not null default agent.current_principal(),
    made_at    timestamptz not null default agent_internal.now(),
    tenant     text collate "C" not null default agent.current_tenant() references agent.tenant on delete cascade,
    unique (tenant, name)
);

create table agent.dataset_case (
    id          bigint primary key generated always as identity,
    dataset_id  bigint not null references agent.dataset on delete cascade,
    key         text,
    change      jsonb not null,
    merged      jsonb not null default '[]',
    run_id      bigint,
    expected    jsonb check (agent_internal.is_label(expected)),
    labelled_by name,
    labelled_at timestamptz,
    tenant      text collate "C" not null default agent.current_tenant() references agent.tenant on delete cascade,
    constraint labels_have_authors check ((expected is null) = (labelled_by is null) and (expected is null) = (labelled_at is null))
);

create index dataset_case_of on agent.dataset_case (dataset_id, id);

-- A replay of changes, or of questions that people have saved.  The process that executes it holds it until held_until, and extends that; a killed one does not.
create table agent.evaluation (
    id         bigint primary key generated always as identity,
    attachment text,
    agent      text,
    model      text not null,
    judge      text,
    dataset    text,
    draft      jsonb not null default '{}',  -- what differs from the version in use: {"model", "system_prompt", "file"}
    planned    integer not null check (planned >= 0),
    shadow     integer,
    made_by    name not null default agent.current_principal(),
    started_at timestamptz not null default agent_internal.now(),
    held_until timestamptz not null,
    ended_at   timestamptz,
    error      text,
    tenant     text collate "C" not null default agent.current_tenant() references agent.tenant on delete cascade,
    constraint errors_end check (error is null or ended_at is not null),
    constraint of_changes_or_questions check (num_nonnulls(attachment, agent) in (0, 2))
);

create table agent.evaluation_case (
    evaluation_id bigint not null references agent.evaluation on delete cascade,
    number        integer not null check (number > 0),
    run_id        bigint,
    case_id       bigint,
    key           text,
    recorded      jsonb,
    candidate     jsonb not null,
    agrees        boolean,
    expected      jsonb,
    was_right     boolean,
    is_right      boolean,
    verdict       jsonb,
    tenant        text collate "C" not null default agent.current_tenant() references agent.tenant on delete cascade,
    primary key (evaluation_id, number),
    constraint has_a_source check (num_nonnulls(run_id, case_id) > 0)
);

create index evaluation_case_of_run on agent.evaluation_case (run_id) where run_id is not null;

-- What calls of replays in progress can cost at most, as agent.spend has it of runs.  Without foreign keys, for the reasons
-- that it has none.
create table agent_internal.evaluation_charge (
    id              bigint generated always as identity,
    budget_id       bigint not null,
    evaluation_id   bigint not null,
    call            bigint not null,
    reserved_cost   numeric not null check (reserved_cost >= 0 and reserved_cost < 'infinity'),
    reserved_tokens bigint not null check (reserved_tokens >= 0),
    tenant          text collate "C" not null default agent.current_tenant(),
    primary key (id)
);
create sequence agent_internal.evaluation_call;
