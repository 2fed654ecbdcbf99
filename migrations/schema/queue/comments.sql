comment on table agent_internal.queue is 'Queues of runs, which claims serve in turn: one for each attachment and each session';
comment on column agent_internal.queue.kind is 'Kind of its runs: agent, question, or another one';
comment on column agent_internal.queue.cap is 'Maximum number of concurrent runs; NULL: as many as the workers have slots';
comment on column agent_internal.queue.name is 'Name among the queues of its kind, if neither an attachment nor a session has it';
