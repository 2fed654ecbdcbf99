comment on table agent.audit is 'Audit: append-only, with a hash chain for each tenant';
comment on column agent.audit.tenant is 'Tenant that it concerns';
comment on column agent.audit.number is 'Number in the chain of the tenant, from 1, without gaps';
comment on column agent.audit.at is 'Time of the statement';
comment on column agent.audit.principal is 'Who did it';
comment on column agent.audit.login is 'Database role of the session';
comment on column agent.audit.action is 'What was done: noun.verb, such as approval.approved';
comment on column agent.audit.object is 'What it was done to';
comment on column agent.audit.detail is 'More of it: names and numbers, no row data and no secrets';
comment on column agent.audit.previous is 'Digest of the row before; of row 1, 32 zero bytes';
comment on column agent.audit.digest is 'SHA-256 of the row and of the digest before';

comment on table agent_internal.audit_head is 'Last row of the audit of each tenant';

comment on table agent_internal.audit_entry is 'Entries of the audit that are not numbered yet: their transaction is open, or somebody else held the head for a second';
