alter table agent.document enable row level security, force row level security;
create policy tenant on agent.document
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.document as restrictive for select using ((select agent_internal.may_read()));

alter table agent.document_chunk enable row level security, force row level security;
create policy tenant on agent.document_chunk
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.document_chunk as restrictive for select using ((select agent_internal.may_read()));

alter table agent.document_link enable row level security, force row level security;
create policy tenant on agent.document_link
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.document_link as restrictive for select using ((select agent_internal.may_read()));

alter table agent.embedding_setting enable row level security, force row level security;
create policy tenant on agent.embedding_setting
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.embedding_setting as restrictive for select using ((select agent_internal.may_read()));
