-- Columns that agents keep in step with others of their row.

-- Check the columns of a table that are to be kept in step with others.
--
-- Args: _columns: that the values are made of; _writes: that are kept.
-- Raises WA010 if one of the lists is empty, and WA013 if they have a column in common.
create or replace function agent_internal.check_kept(_target regclass, _columns text[], _writes text[])
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _both   constant text := (select c from unnest(_columns) c where c = any (_writes) limit 1);
    _of_key constant text := (select c from unnest(_writes) c where c = any (agent_internal.key_columns(_target)) limit 1);
begin
    perform agent_internal.check_relation(_target, '{insert,update}');
    if coalesce(_columns, '{}') = '{}' or coalesce(_writes, '{}') = '{}' then
        raise exception '%: must name at least one column', case when coalesce(_writes, '{}') = '{}' then 'writes' else 'columns' end
            using errcode = 'WA010', hint = 'Values of writes are made of those of columns.';
    elsif array_position(_columns || _writes, null) is not null then
        raise exception '%: must not contain NULL', case when array_position(_writes, null) is not null then 'writes' else 'columns' end
            using errcode = 'WA010';
    elsif _both is not null then
        raise exception 'writes: column "%" is among those that it is made of', _both using errcode = 'WA013';
    elsif _of_key is not null then
        raise exception 'writes: column "%" is part of the primary key of %', _of_key, _target using errcode = 'WA013';
    end if;
    perform agent_internal.check_columns(_target, _columns, 'columns');
end;
$$;

-- The spec with which agent_internal.attach() attaches such an agent.
--
-- Args: as of agent_internal.check_kept(); _given: other keys of the spec.
create or replace function agent_internal.enrichment(_target regclass, _columns text[], _writes text[], _given jsonb)
    returns jsonb
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _absent constant text := (select c from unnest(_columns) c where c <> all (agent_internal.identity_columns(_target)) limit 1);
    _table  constant text := (select relname from pg_class where oid = _target);
begin
    perform agent_internal.check_kept(_target, _columns, _writes);
    if _absent is not null then
        raise warning 'each UPDATE of % starts a run, for the WAL does not have the old value of "%"', _target, _absent
            using hint = format('alter table %s replica identity full', agent_internal.without_identity(_target, _absent));
    end if;
    return _given || jsonb_build_object(
        'name', coalesce(_given ->> 'name', _table || '_' || array_to_string(_writes, '_')),
        'system_prompt', concat_ws(E'\n\n', format('Determine %s of the row below from its other columns. Write null for what they do not say.',
                                                   (select string_agg(format('"%s"', c), ', ') from unnest(_writes) c)),
                                   nullif(_given ->> 'system_prompt', '')),
        'on', '["insert", "update"]'::jsonb, 'columns', _columns, 'writes', _writes, 'tool_choice', 'update_row',
        'finish', 'after_call', 'only_unchanged', true);
end;
$$;

-- Let an agent keep columns of a table in step with others of their row: attach one that writes `writes` when a row is
-- inserted, or one of `columns` changes.  What was made of values that have changed meanwhile is not written.
--
-- Args: columns: that the values are made of, and that the model is shown; writes: that the model determines.
-- backfill: also of the rows that exist.  The others are as of agent.attach().
create or replace function agent.enrich(
    target regclass,
    columns text[],
    writes text[],
    model text default null,
    system_prompt text default '',
    name text default null,
    persona text default null,
    examples jsonb default '[]',
    parameters jsonb default '{}',
    max_cost numeric default null,
    max_output_tokens integer default null,
    requests_per_minute integer default null,
    cascade text[] default null,
    cascade_control numeric default null,
    fallback text default null,
    tier text default null,
    reuse interval default null,
    rows_per_request integer default null,
    condition text default null,
    run_as name default current_user,
    debounce interval default null,
    cap integer default null,
    tenant text default null,
    backfill boolean default true,
    priority integer default 0,
    paused boolean default null,
    replace boolean default false
)
    returns bigint
    language sql
begin atomic
    select agent_internal.attach(target, agent_internal.enrichment(target, columns, writes, jsonb_build_object(
        'model', model, 'system_prompt', system_prompt, 'name', name, 'persona', persona, 'examples', examples,
        'parameters', parameters, 'max_cost', max_cost, 'max_output_tokens', max_output_tokens,
        'requests_per_minute', requests_per_minute, 'cascade', cascade, 'cascade_control', cascade_control, 'fallback', fallback, 'tier', tier,
        'reuse', reuse, 'rows_per_request', rows_per_request, 'when', condition, 'run_as', run_as, 'debounce', debounce, 'cap', cap,
        'tenant', tenant, 'backfill', backfill, 'priority', priority, 'paused', paused, 'replace', replace)),
        agent_internal.schemas_of_caller());
end;
comment on function agent.enrich(regclass, text[], text[], text, text, text, text, jsonb, jsonb, numeric, integer, integer, text[], numeric, text, text, interval, integer, text, name, interval, integer, text, boolean, integer, boolean, boolean) is 'Let an agent keep columns of a table in step with others of their row';
