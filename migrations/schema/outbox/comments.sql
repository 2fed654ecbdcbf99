comment on table agent.channel is 'Channels: where messages go';
comment on column agent.channel.tenant is 'Tenant that it belongs to';
comment on column agent.channel.name is 'Name that rules and tools use';
comment on column agent.channel.kind is 'webhook, email or slack';
comment on column agent.channel.target is 'webhook: a URL; email: an address; slack: the ID of a channel or user, or empty for an incoming webhook';
comment on column agent.channel.secret is 'Name of a variable or credential, never its value. webhook: the signing key; slack without a target: the URL of the incoming webhook';
comment on column agent.channel.principal is 'Approver who reads it: messages about approvals have a link with which this principal decides; NULL: no links';
comment on column agent.channel.enabled is 'Whether messages are accepted';
comment on column agent.channel.created_at is 'Time of creation';

comment on table agent.notification is 'Rules: what is sent to which channel';
comment on column agent.notification.tenant is 'Tenant of event and channel';
comment on column agent.notification.event is 'approval.requested, run.dead, run.needs_review, budget.exceeded (once for each budget and period), gap or problem (at most once an hour for each)';
comment on column agent.notification.channel is 'Channel that gets a message';

comment on table agent.outbox is 'Outbox: messages to the outside, each delivered by a run';
comment on column agent.outbox.tenant is 'Tenant that sends it';
comment on column agent.outbox.id is 'ID of the delivery, the same in each attempt';
comment on column agent.outbox.channel is 'Channel that it leaves by';
comment on column agent.outbox.event is 'Event of the rule that sent it; message: a tool or an application';
comment on column agent.outbox.subject is 'Subject, one line';
comment on column agent.outbox.body is 'What is sent: {"text"}, and more for programs';
comment on column agent.outbox.key is 'Key of what it is about: a channel gets one message for each; NULL: no limit';
comment on column agent.outbox.link_id is 'Link that is sent with it; only a rule can set one';
comment on column agent.outbox.run_id is 'Run that delivers it; it has state, attempts and error';
comment on column agent.outbox.cause_run is 'Run that sent it, or that it is about';
comment on column agent.outbox.created_by is 'Principal that sent it';
comment on column agent.outbox.created_at is 'Time of the insert';

comment on table agent.approval_link is 'Links that decide approvals: each for one approver and one digest, once';
comment on column agent.approval_link.tenant is 'Tenant of approver and approval';
comment on column agent.approval_link.id is 'First part of the token';
comment on column agent.approval_link.approval_id is 'Approval that it decides';
comment on column agent.approval_link.principal is 'Approver who decides with it';
comment on column agent.approval_link.digest is 'Digest of the call that was shown';
comment on column agent.approval_link.expires_at is 'When it expires, with its approval';
comment on column agent.approval_link.used_at is 'When it decided';
