alter table agent_internal.queue enable row level security, force row level security;
create policy tenant on agent_internal.queue
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent_internal.queue as restrictive for select using ((select agent_internal.may_read()));
-- A queue can have runs of several tenants: who lets one continue wakes the queue, whichever tenant it belongs to.
create policy of_definers on agent_internal.queue using ((select agent_internal.has_owner_rights()));
