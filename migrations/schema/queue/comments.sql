comment on table agent_internal.queue is 'Queues of runs, which claims serve in turn: one for each attachment and each session';
comment on column agent_internal.queue.kind is 'Kind of its runs: agent, question, or another one';
comment on column agent_internal.queue.cap is 'Maximum number of concurrent runs; NULL: as many as the workers have slots';
comment on column agent_internal.queue.used is 'Number of running runs, a hint; 0 without a cap';
comment on column agent_internal.queue.queued is 'Whether there might be runs to claim, a hint';
comment on column agent_internal.queue.served is 'Number of agent_internal.queue_turn at the last claim from it';
comment on column agent_internal.queue.last_tenant is 'Tenant whose runs were claimed last from it, of several';
comment on column agent_internal.queue.name is 'Name among the queues of its kind, if neither an attachment nor a session has it';
