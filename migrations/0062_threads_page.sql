-- The turns of a thread, latest first, whatever the number of runs is.
create index run_of_thread on agent.run (ordering_key, id) where kind = 'turn';
