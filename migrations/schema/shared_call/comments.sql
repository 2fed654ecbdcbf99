comment on table agent_internal.shared_call is 'Calls whose reply is shared by equal first calls of other runs of an attachment';
comment on table agent_internal.shared_wait is 'Runs that wait for the reply of another run to an equal call';
