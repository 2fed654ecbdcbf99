-- Whether a label says something that can be compared: values of arguments by name, tools in order, or the result.
create or replace function agent_internal.is_label(_label jsonb)
    returns boolean
    language plpgsql
    immutable
    set search_path = pg_catalog, pg_temp
as $$
begin
    return _label is null
        or jsonb_typeof(_label) = 'object' and _label <> '{}' and _label - '{values,tools,result}'::text[] = '{}'
           and coalesce(jsonb_typeof(_label -> 'values') = 'object' and _label -> 'values' <> '{}', true)
           and coalesce(jsonb_typeof(_label -> 'tools') = 'array' and not jsonb_path_exists(_label, '$.tools[*] ? (@.type() != "string")'), true)
           and coalesce(jsonb_typeof(_label -> 'result') = 'string', true);
end;
$$;
comment on function agent_internal.is_label(jsonb) is 'Whether a label has values, tools or a result, and nothing else';
