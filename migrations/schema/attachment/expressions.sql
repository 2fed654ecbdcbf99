-- An expression over a JSON value, compiled: checked, with all names spelled out.
--
-- It can call functions of others, which are executed as the role of a workflow or policy, and as nobody else: not as who writes
-- the expression, or looks at it.  So it is parsed and never planned: the planner executes immutable functions.
--
-- Args: _expression: NULL: returns NULLs.  _type: of its result: bool or jsonb.  _variable: the name of the value.  _path: for the
--       names in it, and in what it calls.  _role: as which it is executed.  _state: SQLSTATE of what is wrong with it.
-- Returns uses: what of users it uses or could call, as agent_internal.names_used_by() returns it.
create or replace function agent_internal.compiled_expression(
    _expression text, _type text, _variable name, _path text, _role name, _state text, out compiled text, out uses jsonb
)
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set standard_conforming_strings = on
as $$
declare
    _within constant text := concat_ws(', ', nullif(_path, ''), 'pg_temp');
    _head constant text := 'select (';
    _tail constant text := format(')::pg_catalog.%I as holds from pg_catalog.jsonb_to_record(''{}'') as s (%I pg_catalog.jsonb)', _type, _variable);
    _text  text;
    _other text;
begin
    if _expression is null then
        return;
    elsif not agent_internal.is_one_expression(_expression) then
        raise exception 'condition is not a single expression: %', left(_expression, 200) using errcode = _state,
            hint = 'Remove comments, dollar quotes, E strings and semicolons, and balance the parentheses.';
    end if;
    begin
        _text := agent_internal.with_typed_constants(_head, _expression, _tail, _within, _state);
        perform set_config('search_path', _within, true);
        execute pg_catalog.concat('create temporary view walagent_condition as ', _head, _text, _tail);
        perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    exception when insufficient_privilege then
        raise exception 'could not check the condition: %', sqlerrm
            using errcode = _state, hint = format('grant temporary on database %I to %I', current_database(), current_user);
    end;
    compiled := agent_internal.view_text('pg_temp.walagent_condition', ' SELECT ', format(
        E' AS holds\n   FROM jsonb_to_record(''{}''::jsonb) s(%I jsonb);', _variable));
    uses := agent_internal.names_used_by('pg_temp.walagent_condition') || agent_internal.names_called_bare(compiled, _path, _role);
    drop view pg_temp.walagent_condition;
    _other := agent_internal.exchanged_name(uses);
    if _other is not null then
        raise exception '%, and could be called in its place', _other using errcode = _state, hint = 'Rename or drop it.';
    end if;
end;
$$;
comment on function agent_internal.compiled_expression(text, text, name, text, name, text) is 'An expression of a workflow or policy, checked, with all names spelled out';
