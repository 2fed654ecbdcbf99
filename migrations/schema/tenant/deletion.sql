-- The tables with rows of tenants, except agent.tenant.
create or replace function agent_internal.tenant_tables()
    returns setof regclass
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select c.oid::regclass
      from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant' and not a.attisdropped
     where c.relnamespace in ('agent'::regnamespace, 'agent_internal'::regnamespace) and c.relkind in ('r', 'p')
     order by c.relnamespace, c.relname
$$;
comment on function agent_internal.tenant_tables() is 'The tables with rows of tenants';

-- What a tenant has: tables with the number of its rows.
create or replace function agent.tenant_contents(name text)
    returns table (relation regclass, rows bigint)
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.check_operator();
    if not exists (select from agent.tenant t where t.name = tenant_contents.name) then
        raise exception 'tenant "%" does not exist', tenant_contents.name
            using errcode = 'WA020', hint = agent_internal.suggest(tenant_contents.name, array(select t.name from agent.tenant t));
    end if;
    for relation in select * from agent_internal.tenant_tables() loop
        execute format('select count(*) from %s where tenant = $1', relation) into rows using tenant_contents.name;
        if rows > 0 then
            return next;
        end if;
    end loop;
end;
$$;
comment on function agent.tenant_contents(text) is 'The tables in which a tenant has rows, and how many';

-- Delete a tenant with all that it has, at once.  A worker that executes one of its runs loses it: what it has not committed
-- is rolled back.
--
-- Args: audit: keep, or remove.  Its end is recorded in the audit of the tenant `default`.
-- Returns: the number of rows deleted.
create or replace function agent.delete_tenant(name text, audit text default 'keep')
    returns bigint
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _table   regclass;
    _count   bigint;
    _total   bigint;
    _deleted bigint;
    _stuck   text;
begin
    perform agent_internal.check_operator();
    if delete_tenant.audit is null or delete_tenant.audit not in ('keep', 'remove') then
        raise exception 'audit is "%", expected keep or remove', delete_tenant.audit using errcode = 'WA020';
    elsif delete_tenant.name = 'default' then
        raise exception 'tenant "default" cannot be deleted' using errcode = 'WA020';
    end if;
    perform from agent.tenant t where t.name = delete_tenant.name for update;
    if not found then
        raise exception 'tenant "%" does not exist', delete_tenant.name
            using errcode = 'WA020', hint = agent_internal.suggest(delete_tenant.name, array(select t.name from agent.tenant t));
    end if;
    _total := (select sum(c.rows) from agent.tenant_contents(delete_tenant.name) c
                where delete_tenant.audit = 'remove' or c.relation not in ('agent.audit'::regclass, 'agent_internal.audit_head'::regclass));
    -- Triggers can insert rows of the tenant while others are deleted, and foreign keys give the order.
    for _round in 1 .. 20 loop
        _deleted := 0;
        _stuck := null;
        for _table in
            select t from agent_internal.tenant_tables() t
             where t not in ('agent.audit'::regclass, 'agent_internal.audit_head'::regclass)
             order by t <> 'agent.attachment'::regclass, t::text
        loop
            begin
                execute format('delete from %s where tenant = $1', _table) using delete_tenant.name;
                get diagnostics _count = row_count;
                _deleted := _deleted + _count;
            exception when foreign_key_violation then
                _stuck := sqlerrm;
            end;
        end loop;
        exit when _deleted = 0;
    end loop;
    if _stuck is not null then
        raise exception 'tenant "%" cannot be deleted: %', delete_tenant.name, _stuck using errcode = 'WA020';
    end if;
    delete from agent.tenant t where t.name = delete_tenant.name;
    if delete_tenant.audit = 'remove' then
        delete from agent_internal.audit_entry e where e.entry ->> 'tenant' = delete_tenant.name;
        delete from agent.audit a where a.tenant = delete_tenant.name;
        delete from agent_internal.audit_head h where h.tenant = delete_tenant.name;
    end if;
    return coalesce(_total, 0);
end;
$$;
comment on function agent.delete_tenant(text, text) is 'Delete a tenant with all that it has; return the number of rows';
