-- Indexes for readers under row-level security: there a comparison of states is no condition of an index, because it is
-- not leakproof, but it proves the predicate of a partial one.

create index run_waits on agent.run (id) where state in ('waiting_approval', 'needs_review');
create index run_failed_at on agent.run (finished_at) where state in ('failed', 'dead');
