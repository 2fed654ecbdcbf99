-- Trials: walagent try attaches, claims and calls in one transaction, which is rolled back.

-- Only the owner can insert, and nobody commits a row: who sees one is in the transaction of a trial.
create table agent_internal.trial (
    started_at timestamptz primary key default now()
);
comment on table agent_internal.trial is 'Has a row in the transaction of a trial, and is empty otherwise';
comment on column agent_internal.trial.started_at is 'Time of the start';
