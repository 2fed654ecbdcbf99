-- Filters of the list of runs that a person saved, for all who see the runs of its tenant.

create table agent.saved_filter (
    tenant   text collate "C" not null default agent.current_tenant() references agent.tenant on delete cascade,
    name     text not null check (length(name) between 1 and 60),
    query    text not null check (length(query) between 1 and 2000),
    saved_by name not null default coalesce(agent.current_principal(), session_user),
    saved_at timestamptz not null default agent_internal.now(),
    primary key (tenant, name)
);
comment on table agent.saved_filter is 'Filters of the list of runs in the console that a person saved, for all who see the runs';
comment on column agent.saved_filter.tenant is 'Tenant of who saved it';
comment on column agent.saved_filter.name is 'Name of the tab';
comment on column agent.saved_filter.query is 'The filter as the address of the list has it: state=failed&agent=triage';
comment on column agent.saved_filter.saved_by is 'Who saved it, and can change or remove it; an admin can, too';
comment on column agent.saved_filter.saved_at is 'Time of the last save';

select agent_internal.isolate('agent.saved_filter');
create policy reader on agent.saved_filter as restrictive
    using ((select agent_internal.all_tenants() or agent_internal.has_owner_rights() or agent_internal.sees_runs()));
create policy saver on agent.saved_filter as restrictive for insert
    with check (saved_by = coalesce((select agent.current_principal()), session_user));
create policy changer on agent.saved_filter as restrictive for update
    using (saved_by = coalesce((select agent.current_principal()), session_user))
    with check (saved_by = coalesce((select agent.current_principal()), session_user));
create policy remover on agent.saved_filter as restrictive for delete
    using ((select agent_internal.all_tenants() or agent.has_role('admin'))
           or saved_by = coalesce((select agent.current_principal()), session_user));

select agent_internal.permit(c, 'select, insert, update, delete on agent.saved_filter') from unnest('{runner, viewer}'::text[]) c;
