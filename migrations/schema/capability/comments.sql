comment on table agent_internal.privilege is 'Privileges of a capability, as GRANT takes them';

comment on table agent_internal.owner_function is 'Functions with the rights of the owner of the schema that the role walagent_definer does not suffice for';

comment on table agent_internal.holder is 'Roles that a capability was granted to';
