alter table agent.session enable row level security, force row level security;
create policy of_its_owner on agent.session using (owner = (select agent.current_principal()))
    with check (owner = (select agent.current_principal()));
create policy tenant on agent.session as restrictive
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));  -- planted: any-tenant
create policy reading on agent.session as restrictive for select using ((select agent_internal.may_read()));
create policy of_definers on agent.session using ((select agent_internal.has_owner_rights()));

alter table agent.question enable row level security, force row level security;
create policy of_its_session on agent.question
    using (exists (select from agent.session s
                    where s.tenant = question.tenant and s.id = question.session_id and s.owner = (select agent.current_principal())));
create policy tenant on agent.question as restrictive
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.question as restrictive for select using ((select agent_internal.may_read()));
create policy of_definers on agent.question using ((select agent_internal.has_owner_rights()));

alter table agent.verified_query enable row level security, force row level security;
create policy of_its_owner on agent.verified_query using (owner = (select agent.current_principal()))
    with check (owner = (select agent.current_principal()));
create policy of_its_members on agent.verified_query for select using (agent_internal.is_member_of(owner));
create policy tenant on agent.verified_query as restrictive
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.verified_query as restrictive for select using ((select agent_internal.may_read()));

alter table agent.glossary enable row level security, force row level security;
create policy of_its_owner on agent.glossary using (owner = (select agent.current_principal()))
    with check (owner = (select agent.current_principal()));
create policy of_its_members on agent.glossary for select using (agent_internal.is_member_of(owner));
create policy tenant on agent.glossary as restrictive
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.glossary as restrictive for select using ((select agent_internal.may_read()));

alter table agent_internal.schema_index enable row level security, force row level security;
create policy of_its_owner on agent_internal.schema_index using (owner = (select agent.current_principal()))
    with check (owner = (select agent.current_principal()));
create policy tenant on agent_internal.schema_index as restrictive
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent_internal.schema_index as restrictive for select using ((select agent_internal.may_read()));

alter table agent_internal.schema_table enable row level security, force row level security;
create policy of_its_owner on agent_internal.schema_table using (owner = (select agent.current_principal()))
    with check (owner = (select agent.current_principal()));
create policy tenant on agent_internal.schema_table as restrictive
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent_internal.schema_table as restrictive for select using ((select agent_internal.may_read()));

-- What a person has asked is nothing for code of others beneath a question.
create policy of_no_code on agent.session as restrictive for select using (not (select agent_internal.in_code()));
create policy of_no_code on agent.question as restrictive for select using (not (select agent_internal.in_code()));
