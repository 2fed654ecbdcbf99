create table agent.step (
    run_id             bigint not null,
    seq                integer not null check (seq >= 0),
    kind               text not null
                           check (kind in ('reply', 'intent', 'result', 'approval', 'decision', 'note', 'error')),
    content            jsonb not null,
    input_tokens       integer,
    cached_tokens      integer,
    cache_write_tokens integer,
    output_tokens      integer,
    cost               numeric,
    duration_ms        integer,
    recorded_at        timestamptz not null default now(),
    tenant             text collate "C" not null default agent.current_tenant(),
    primary key (run_id, seq),
    constraint figures_are_numbers
    check (least(input_tokens, cached_tokens, cache_write_tokens, output_tokens) >= 0
           and least(cost, 0) >= 0 and greatest(cost, 0) < 'infinity'),
    foreign key (run_id, tenant) references agent.run (id, tenant) on delete cascade
);
