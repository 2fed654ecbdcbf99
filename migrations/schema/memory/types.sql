create type agent_internal.scored_id as (id uuid, score double precision);

create type agent.recalled_memory as (
    id uuid, kind text, key text, value jsonb, score double precision, importance double precision, trust text, disputed boolean, thread_id uuid,
    principal name, created_at timestamptz, expires_at timestamptz
);
comment on type agent.recalled_memory is 'A memory as agent.recall() returns it, with its score from 0 to 1';
