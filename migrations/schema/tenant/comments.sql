comment on table agent.tenant is 'Tenants: organisations whose agents, rows and people are kept apart';
comment on column agent.tenant.name is 'Key of the tenant; of a change, the text in the column that names its tenant';
comment on column agent.tenant.id is 'The tenant for programs that want a UUID';
comment on column agent.tenant.display_name is 'Name for people';
comment on column agent.tenant.active is 'Whether its principals can act; if not, they see nothing';
comment on column agent.tenant.settings is 'Settings of the tenant, such as {"approve_from": "high", "four_eyes": true}';
comment on column agent.tenant.max_running is 'Maximum number of its runs that are executed at once; NULL: no limit';
comment on column agent.tenant.max_queued is 'Number of runs that wait for a worker from which people are refused questions, posts and workflows; NULL: no limit. Changes are never refused';
comment on column agent.tenant.created_at is 'Time of creation';

comment on table agent.principal is 'Principals: people, agents and services of a tenant';
comment on column agent.principal.tenant is 'Tenant that it belongs to';
comment on column agent.principal.name is 'Name, unique in its tenant';
comment on column agent.principal.id is 'The principal for programs that want a UUID';
comment on column agent.principal.kind is 'user, agent or service';
comment on column agent.principal.login is 'Database role whose sessions act as it; NULL: only by a token';
comment on column agent.principal.is_login is 'Whether it is the login of its name, which is tied to no principal';
comment on column agent.principal.links_of is 'Login of the operator, which is no principal, that has made a link for it; its privileges bound what its tokens do. NULL: none';
comment on column agent.principal.display_name is 'Name for people';
comment on column agent.principal.email is 'Address for notifications';
comment on column agent.principal.active is 'Whether it can act';
comment on column agent.principal.metadata is 'What an application keeps about it';
comment on column agent.principal.created_at is 'Time of creation';

comment on table agent.role_grant is 'Roles of principals in their tenant';
comment on column agent.role_grant.tenant is 'Tenant of the principal';
comment on column agent.role_grant.principal is 'Principal that has the role';
comment on column agent.role_grant.role is 'admin (all), developer (agents and attachments), approver, auditor, agent, viewer';
comment on column agent.role_grant.granted_by is 'Principal that granted it';
comment on column agent.role_grant.granted_at is 'Time of the grant';
comment on column agent.role_grant.expires_at is 'When it ends; NULL: never';

comment on table agent_internal.login is 'The principal of each login that has one, and names that others have in tenant default, kept by triggers';

comment on table agent.token is 'Tokens of principals, as digests';
comment on column agent.token.tenant is 'Tenant of the principal';
comment on column agent.token.id is 'ID of the token, to revoke it';
comment on column agent.token.principal is 'Principal that it stands in for';
comment on column agent.token.label is 'What it is for';
comment on column agent.token.purpose is 'token; link: a code that is exchanged for a session, once; session: of the console';
comment on column agent.token.digest is 'SHA-256 of the token';
comment on column agent.token.scopes is 'What it can be used for: read, post, approve, develop, admin; empty: all that its principal may do';
comment on column agent.token.created_at is 'Time of creation';
comment on column agent.token.expires_at is 'When it expires; NULL: never';
comment on column agent.token.gives_until is 'Of a session: what its principal gives lasts until then, the end of the token that opened it; NULL: as long as its role';
comment on column agent.token.revoked_at is 'When it was revoked';
