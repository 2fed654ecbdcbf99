-- Each row belongs to a tenant.
--
-- Names are unique within a tenant, and foreign keys contain it: no row refers to a row of another one.  Steps, versions,
-- approvals and the like have the tenant of what they belong to; a run has that of its attachment, unless the attachment
-- takes it from a column of the row.  Models and tools without a tenant are shared; a tenant's own of the same name
-- precedes them.
--
-- Row-level security does not apply to superusers, and so not to functions with their rights.  If one owns the schema, these
-- functions are given to the role walagent_definer: agent_internal.restrict_definers().

create or replace function agent_internal.sees(_tenant text)
    returns boolean
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$ select agent_internal.all_tenants() or _tenant = agent.current_tenant() $$;
comment on function agent_internal.sees(text) is 'Whether the caller sees the rows of a tenant';

-- Set the tenant of a row to that of what it belongs to: the run, the attachment or the budget in its first argument.
create or replace function agent_internal.inherit_tenant()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _entered constant boolean := agent_internal.enter();
begin
    if tg_argv[0] = 'run' then
        select r.tenant into new.tenant from agent.run r where r.id = new.run_id;
    elsif tg_argv[0] = 'attachment' then
        select coalesce((select a.tenant from agent.attachment a where a.id = new.attachment_id),
                        (select v.tenant from agent.attachment_version v where v.attachment_id = new.attachment_id limit 1),
                        new.tenant) into new.tenant;
    elsif tg_argv[0] = 'budget' then
        select b.tenant into new.tenant from agent.budget b where b.id = new.budget_id;
    end if;
    perform agent_internal.leave(_entered);
    return new;
end;
$$;
