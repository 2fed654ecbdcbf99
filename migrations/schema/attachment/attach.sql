-- Attach, pause and detach agents.
--
-- Each way to attach an agent ends here: agent.attach() with named arguments or a text, the console and `walagent agents
-- attach`.  `walagent apply` writes the same rows.

-- Attach an agent to a table: a new one of the name of the attachment, or one that exists.
--
-- Args: _spec: values by the keys of agent_internal.attach_keys(), and replace.
--   _schemas: agent_internal.schemas_of_caller(): what names in the spec mean.
--
-- Raises WA010 (spec), WA011 (tool), WA012 (condition), WA013 (table, column, name), WA014 (model).
create or replace function agent_internal.attach(_target regclass, _spec jsonb, _schemas name[])
    returns bigint
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set standard_conforming_strings = on
as $$
declare
    _given jsonb;
    _agent jsonb;
    _name  text;
    _replace boolean;
    _old   agent.attachment;
    _key   text;
    _state   text;
    _message text;
    _detail  text;
    _hint    text;
begin
    -- agent.attach('t'::regclass, 'model=m') is the call with named arguments: its second is the model.
    if _spec ->> 'model' ~ '^\s*([a-z_]+\s*=|\{)' then
        _spec := (_spec - 'model') || agent_internal.parse_spec(_spec ->> 'model');
    end if;
    _given := agent_internal.spec_values(_spec);
    _agent := agent_internal.spec_row('agent', _given);
    _name := coalesce(_given ->> 'name', (select relname from pg_catalog.pg_class where oid = _target));
    _replace := coalesce((_given ->> 'replace')::boolean, false);
    if _given ->> 'agent' is not null then
        select k.key into _key from agent_internal.attach_keys() k
         where k.of = 'agent' and _agent -> k.column is distinct from coalesce(k.fallback, 'null') limit 1;
        if found then
            raise exception 'agent: cannot be combined with %', _key using errcode = 'WA010';
        end if;
    elsif num_nonnulls(_given ->> 'model', _given ->> 'persona') = 0 then
        raise exception 'an agent requires a model, or a persona that has one'
            using errcode = 'WA010', hint = 'Add model=NAME. The table agent.model lists the models.';
    end if;
    select * into _old from agent.attachment a where a.tenant = agent.current_tenant() and a.name = _name for update;
    if _old.id is not null and (not _replace or _old.relation <> _target or _old.source <> 'sql') then
        raise exception 'attachment "%" already exists', _name
            using errcode = 'WA013',
                  detail = case when not _replace then ''
                                when _old.source <> 'sql' then 'It comes from a file.'
                                else format('It belongs to table %s.', _old.relation) end,
                  hint = case when _old.source <> 'sql' then 'Change the file and run walagent apply.'
                              when _old.relation <> _target then format('Use another name, or first run select agent.detach(%L).', _name)
                              else 'Add replace => true (in a spec: replace=true) to change it, or use another name.' end;
    end if;
    if _given ->> 'agent' is null then
        perform agent_internal.write_row('agent', _name, _agent, _schemas);
    end if;
    perform agent_internal.write_row('attachment', _name, agent_internal.spec_row('attachment', _given) || jsonb_build_object(
        'agent', coalesce(_given ->> 'agent', _name), 'relation', _target::oid::bigint), _schemas);
    return (select a.id from agent.attachment a where a.tenant = agent.current_tenant() and a.name = _name);
exception when others then
    -- Raised again from here, not by agent_internal.raise_again(): psql prints one line of context for most mistakes of people.
    get stacked diagnostics _state = returned_sqlstate, _message = message_text,
                            _detail = pg_exception_detail, _hint = pg_exception_hint;
    if _detail <> '' and _hint <> '' then
        raise exception using errcode = _state, message = _message, detail = _detail, hint = _hint;
    elsif _detail <> '' then
        raise exception using errcode = _state, message = _message, detail = _detail;
    elsif _hint <> '' then
        raise exception using errcode = _state, message = _message, hint = _hint;
    end if;
    raise exception using errcode = _state, message = _message;
end;
$$;

-- Insert or update a row of agent.agent, agent.attachment, agent.persona or agent.budget of the tenant.
--
-- Args: _row: values by column; the others keep theirs, or have the defaults.
--   _schemas: agent_internal.schemas_of_caller(), in which a new attachment finds its functions.
create or replace function agent_internal.write_row(_of text, _name text, _row jsonb, _schemas name[])
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _columns text := (select string_agg(quote_ident(c), ', ' order by c) from jsonb_object_keys(_row) c);
    _values  text := (select string_agg('r.' || quote_ident(c), ', ' order by c) from jsonb_object_keys(_row) c);
    _written bigint;
    _constraint text;
    _message text;
begin
    execute format('update agent.%I t set (%s) = (select %s from jsonb_populate_record(t, $1) r) '
                   'where t.tenant = agent.current_tenant() and t.name = $2', _of, _columns, _values) using _row, _name;
    get diagnostics _written = row_count;
    if _written = 0 then
        if _of = 'attachment' then
            _row := _row || jsonb_build_object('search_path', agent_internal.path_of(_schemas));
            _columns := _columns || ', search_path';
            _values := _values || ', r.search_path';
        end if;
        execute format('insert into agent.%1$I (name, %2$s) select $2, %3$s from jsonb_populate_record(null::agent.%1$I, $1) r',
                       _of, _columns, _values) using _row, _name;
    end if;
exception when unique_violation then
    raise exception '% "%" was created meanwhile by another transaction', _of, _name
        using errcode = 'WA013', hint = 'Look at it, and repeat what you did.';
when check_violation then
    get stacked diagnostics _constraint = constraint_name;
    select format('%s: %s', k.key, k.expected) into _message
      from pg_catalog.pg_constraint c
           join pg_catalog.pg_attribute a on a.attrelid = c.conrelid and c.conkey = array[a.attnum]
           join agent_internal.attach_keys() k on k.of = _of and k.column = a.attname
     where c.conname = _constraint and c.conrelid = format('agent.%I', _of)::regclass;
    if found then
        raise exception '%', _message using errcode = 'WA010';
    end if;
    raise;
end;
$$;

-- The table of a name, which can be qualified, in these schemas.  Raises WA013 with the table that might be meant.
create or replace function agent_internal.table_named(_name text, _schemas name[])
    returns regclass
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _found constant regclass := agent_internal.relation_named(_name, _schemas);
    _hint  text;
begin
    if _found is not null then
        return _found;
    end if;
    with tables as (
        select c.oid, c.relname, n.nspname || '.' || c.relname as full_name, n.nspname = any (_schemas) as visible,
               case when n.nspname <> all (_schemas) then quote_ident(n.nspname) || '.' else '' end || quote_ident(c.relname) as written
          from pg_class c join pg_namespace n on n.oid = c.relnamespace
         where relkind in ('r', 'p') and n.nspname not in ('pg_catalog', 'information_schema')
    )
    select coalesce((select case when full_name = _name or relname = _name and visible
                                 then format('Write %L: a name that has other characters than a-z, 0-9 and _ needs double quotes.', written)
                                 else format('Did you mean %L?', written) end
                       from tables where lower(_name) in (lower(relname), lower(full_name)) and written like '%"%'
                      order by full_name = _name desc, relname = _name desc, oid limit 1),
                    (select format('Did you mean "%s"?', written) from tables where relname = _name and not visible order by oid limit 1),
                    agent_internal.suggest(_name, (select array_agg(relname::text) from tables where visible)))
      into _hint;
    raise exception 'table "%" does not exist', _name using errcode = 'WA013', hint = _hint;
end;
$$;

-- The argument is the name of an attachment or a table; with a table, all its attachments are detached.  The agent that
-- has the name of a removed attachment goes with it, unless another attachment uses it.
create or replace function agent_internal.detach(_target text, _schemas name[])
    returns integer
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _names text[];
    _table regclass;
begin
    with removed as (delete from agent.attachment
                      where name = _target and tenant = agent.current_tenant() returning name)
    select coalesce(array_agg(name), '{}') into _names from removed;
    if _names = '{}' then
        _table := agent_internal.relation_named(_target, _schemas);
        with removed as (delete from agent.attachment
                           where relation = _table and tenant = agent.current_tenant() returning name)
        select coalesce(array_agg(name), '{}') into _names from removed;
    end if;
    if _names = '{}' then
        raise exception 'no attachment or attached table is named "%"', _target
            using errcode = 'WA013', hint = agent_internal.suggest(_target, (select array_agg(name) from agent.attachment where tenant = agent.current_tenant()));
    end if;
    delete from agent.agent g
     where g.tenant = agent.current_tenant() and g.name = any (_names)
       and not exists (select from agent.attachment a where a.tenant = g.tenant and a.agent = g.name);
    return cardinality(_names);
end;
$$;

create or replace function agent.detach(target text)
    returns integer
    language sql
return agent_internal.detach(target, agent_internal.schemas_of_caller());
comment on function agent.detach(text) is 'Remove an attachment, or all of a table; existing runs continue, unless it is paused: then they are cancelled';

create or replace function agent.pause(name text, reason text default null)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    update agent.attachment a set paused = true, paused_reason = pause.reason,
                                  paused_by = coalesce(agent.current_principal(), session_user)
     where a.name = pause.name and a.tenant = agent.current_tenant();
    if not found then
        raise exception 'attachment "%" does not exist', pause.name
            using errcode = 'WA013', hint = agent_internal.suggest(pause.name, (select array_agg(a.name) from agent.attachment a where a.tenant = agent.current_tenant()));
    end if;
end;
$$;
comment on function agent.pause(text, text) is 'Stop an attachment from starting runs; changes are still ingested';

create or replace function agent.resume(name text)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    update agent.attachment a set paused = false, paused_reason = null, paused_by = null where a.name = resume.name and a.tenant = agent.current_tenant();
    if not found then
        raise exception 'attachment "%" does not exist', resume.name
            using errcode = 'WA013', hint = agent_internal.suggest(resume.name, (select array_agg(a.name) from agent.attachment a where a.tenant = agent.current_tenant()));
    end if;
    perform pg_notify('walagent_runs', '');
end;
$$;
comment on function agent.resume(text) is 'Resume a paused attachment, after a check of its table, roles and tools';
