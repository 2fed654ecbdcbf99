comment on table agent.saved_filter is 'Filters of the list of runs in the console that a person saved, for all who see the runs';
comment on column agent.saved_filter.tenant is 'Tenant of the principal that saved it';
comment on column agent.saved_filter.name is 'Name of the tab';
comment on column agent.saved_filter.query is 'The filter as the address of the list has it: state=failed&agent=triage';
comment on column agent.saved_filter.saved_by is 'Who saved it, and can change or remove it; an admin can, too';
comment on column agent.saved_filter.saved_at is 'Time of the last save';
