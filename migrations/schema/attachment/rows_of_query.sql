-- Rows of a query that a model completes.

-- Create a table with the rows of a query, a primary key row_id, and columns that are to be determined.
--
-- Args: _target: its name; _writes: types of the columns by their names; _schemas: agent_internal.schemas_of_caller().
-- Raises WA010 if one of these is not valid; errors of the query are PostgreSQL's.
create or replace function agent_internal.table_of_rows(_target text, _query text, _writes jsonb, _schemas name[])
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set standard_conforming_strings = on
as $$
declare
    _path    constant text := agent_internal.path_of(_schemas);
    _wrong   constant text := (select k from jsonb_each(case jsonb_typeof(_writes) when 'object' then _writes else '{}' end) as e (k, v)
                                where jsonb_typeof(v) <> 'string' limit 1);
    _name    text;
    _create  text;
    _alter   text;
    _column  text;
    _type    text;
    _found   regtype;
begin
    if coalesce(_target, '') = '' or coalesce(_query, '') !~ '\S' then
        raise exception '%: must not be empty', case when coalesce(_target, '') = '' then 'target' else 'query' end using errcode = 'WA010';
    elsif jsonb_typeof(_writes) is distinct from 'object' or _writes = '{}' or _wrong is not null then
        raise exception 'writes: expected types of columns by their names, not %', coalesce(left(_writes::text, 100), 'NULL')
            using errcode = 'WA010', hint = 'For example {"summary": "text", "language": "text"}.';
    end if;
    _name := (select string_agg(quote_ident(p), '.' order by n) from unnest(parse_ident(_target)) with ordinality as x (p, n));
    -- The query can end with a comment.
    _create := format(E'create table %s as select * from (%s\n) as rows_of_query', _name, rtrim(_query, E'; \n\t'));
    perform set_config('search_path', _path, true);
    execute _create;
    perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    _alter := format('alter table %s replica identity full, add column row_id bigint generated always as identity primary key', _name);
    for _column, _type in select * from jsonb_each_text(_writes) loop
        perform set_config('search_path', _path, true);
        _found := pg_catalog.to_regtype(_type);
        perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
        if _found is null then
            raise exception 'writes: type "%" of column "%" does not exist', _type, _column
                using errcode = 'WA010', hint = agent_internal.suggest(_type, array(
                    select format_type(t.oid, null) from pg_type t
                     where t.typnamespace = 'pg_catalog'::regnamespace and t.typtype = 'b' and t.typelem = 0));
        end if;
        _alter := concat(_alter, format(', add column %I %s', _column, _type));
    end loop;
    perform set_config('search_path', _path, true);
    execute _alter;
end;
$$;

-- Let a model complete the rows of a query: create a table with them, and attach an agent as agent.enrich() does, which writes
-- `writes` of each row.
--
-- Args: target: name of the new table; query: the caller's own, executed with their rights; writes: types of the columns that the
-- model determines, by their names.  The others are as of agent.attach().
create or replace function agent.complete(
    target text,
    query text,
    system_prompt text,
    writes jsonb default '{"completion": "text"}',
    model text default null,
    name text default null,
    persona text default null,
    examples jsonb default '[]',
    parameters jsonb default '{}',
    max_cost numeric default null,
    max_output_tokens integer default null,
    requests_per_minute integer default null,
    cascade text[] default null,
    fallback text default null,
    tier text default null,
    reuse interval default null,
    rows_per_request integer default null,
    run_as name default current_user,
    cap integer default null,
    tenant text default null,
    priority integer default 0,
    paused boolean default null
)
    returns bigint
    language sql
begin atomic
    select agent_internal.table_of_rows(target, query, writes, agent_internal.schemas_of_caller());
    -- A statement of its own, which sees the table.
    select agent_internal.attach(t.target, agent_internal.enrichment(t.target,
        array(select a.attname::text from pg_catalog.pg_attribute a
               where a.attrelid = t.target and a.attnum > 0 and a.attname <> 'row_id' and not writes ? a.attname::text order by a.attnum),
        array(select k.name from jsonb_object_keys(writes) with ordinality k (name, n) order by k.n),
        jsonb_build_object(
        'model', model, 'system_prompt', system_prompt, 'name', name, 'persona', persona, 'examples', examples,
        'parameters', parameters, 'max_cost', max_cost, 'max_output_tokens', max_output_tokens,
        'requests_per_minute', requests_per_minute, 'cascade', cascade, 'fallback', fallback, 'tier', tier, 'reuse', reuse,
        'rows_per_request', rows_per_request, 'run_as', run_as, 'cap', cap, 'tenant', tenant, 'backfill', true,
        'priority', priority, 'paused', paused)), agent_internal.schemas_of_caller())
      from (select agent_internal.relation_named(target, agent_internal.schemas_of_caller())) t (target);
end;
comment on function agent.complete(text, text, text, jsonb, text, text, text, jsonb, jsonb, numeric, integer, integer, text[], text, text, interval, integer, name, integer, text, integer, boolean) is 'Let a model complete the rows of a query, in a new table';
