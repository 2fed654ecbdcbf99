-- Indexes for readers under row-level security: there a comparison of states is no condition of an index, because it is
-- not leakproof, but it proves the predicate of a partial one.  So what waits is not in one index with what failed.

drop index agent.run_unhappy;
create index run_waits on agent.run (state, id) where state in ('waiting_approval', 'needs_review');
create index run_failed on agent.run (state, id) where state in ('failed', 'dead');
create index run_failed_at on agent.run (finished_at) where state in ('failed', 'dead');
