-- Undo one step: lock all its rows, decide once, undo in savepoints, look again.

-- What an error means for an entry: the reason, unless it is a transient one, which is raised again.
create or replace function agent_internal.revert_refusal(_state text, _message text)
    returns jsonb
    language plpgsql
    immutable
    set search_path = pg_catalog, pg_temp
as $$
begin
    if _state ~ '^(08|40|53|57)' or _state in ('55P03', 'WA001', 'WA002', 'WA016') then
        raise exception '%', _message using errcode = _state;
    end if;
    return jsonb_build_object('outcome', 'refused', 'reason', format('%s (SQLSTATE %s)', _message, _state));
end;
$$;

-- Undo the change of one row, in a savepoint.
--
-- Args: _c: an entry with now, names, was and became; _now: the row as it is; _held: whether it held what the run wrote when it
--       was locked: then what differs now is the doing of the revert's own triggers.
-- Returns outcome: restored; already: it is as before; refused, with reason and, by column, [what the run wrote, what is there].
-- kept: columns that a trigger sets by itself, so that they are not as before: [what was before, what is there].
-- Raises transient errors.
create or replace function agent_internal.revert_row(_through text, _path text, _c jsonb, _now jsonb, _held boolean)
    returns jsonb
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _op     constant text := _c ->> 'op';
    _names  constant text[] := array(select jsonb_array_elements_text(_c -> 'names'));
    _was    constant jsonb := nullif(_c -> 'was', 'null');
    _became constant jsonb := nullif(_c -> 'became', 'null');
    _types  constant jsonb := (select jsonb_object_agg(v.value ->> 0, v.value -> 1) from jsonb_each(_c -> 'columns') v);
    _set    text[];
    _result jsonb;
    _differ jsonb;
    _reason text;
    _state  text;
    _message text;
begin
    if _op = 'insert' then
        if _now is null then
            return '{"outcome": "already"}';
        elsif not _held and _now is distinct from _became then
            return jsonb_build_object('outcome', 'refused', 'reason', 'the row has changed since',
                                      'columns', agent_internal.revert_differences(_became, _now, _names));
        end if;
        _reason := agent_internal.revert_children(_through, _c, _now);
        if _reason is not null then
            return jsonb_build_object('outcome', 'refused', 'reason', _reason);
        end if;
        perform agent_internal.revert_write(_through, format('delete from %s as t using %s returning 1', (_c ->> 'only') || (_c ->> 'now'),
                                                             agent_internal.revert_place(_c, _c -> 'key_after')), _path);
        if agent_internal.revert_look(_through, _c, _names, false, false) is not null then
            raise exception 'a trigger, rule or policy kept the row' using errcode = 'WARVT';
        end if;
        return '{"outcome": "restored"}';
    elsif _op = 'delete' then
        if _now is not null then
            return case when _now = _was then '{"outcome": "already"}'
                        else '{"outcome": "refused", "reason": "another row has its key"}'::jsonb end;
        end if;
        perform agent_internal.revert_write(_through, format(
            'insert into %s as t (%s) overriding system value values (%s) returning 1', _c ->> 'now',
            (select string_agg(quote_ident(n), ', ' order by n) from unnest(_names) n),
            (select string_agg(format('%L::%s', _was ->> n, _types ->> n), ', ' order by n) from unnest(_names) n)), _path);
    else
        if _now is null then
            return '{"outcome": "refused", "reason": "the row is gone, has another key, or is not visible to the role"}';
        elsif _now = _was then
            return '{"outcome": "already"}';
        end if;
        _set := array(select n from unnest(_names) n
                       where _now -> n is distinct from _was -> n and (_held or _now -> n is not distinct from _became -> n) order by n);
        if _set = '{}' then
            return jsonb_build_object('outcome', 'refused', 'reason', 'changed since',
                                      'columns', agent_internal.revert_differences(_became, _now, _names));
        end if;
        _reason := agent_internal.revert_children(_through, _c, _now, _set);
        if _reason is not null then
            return jsonb_build_object('outcome', 'refused', 'reason', _reason);
        end if;
        perform agent_internal.revert_write(_through, format('update %s as t set %s from %s returning 1', (_c ->> 'only') || (_c ->> 'now'),
            (select string_agg(format('%I = %L::%s', n, _was ->> n, _types ->> n), ', ' order by n) from unnest(_set) n),
            agent_internal.revert_place(_c, _c -> 'key_after')), _path);
    end if;
    _result := agent_internal.revert_look(_through, _c, _names, false, true);
    if _result is null then
        raise exception 'a trigger, rule or policy prevented it' using errcode = 'WARVT';
    end if;
    if _op = 'update' and not _held then
        -- A column that holds something else is another's, unless a trigger sets it at each update, as it did now.
        select jsonb_object_agg(n, jsonb_build_array(_became -> n, _now -> n)) into _differ
          from unnest(_names) n
         where not n = any (_set) and _now -> n is distinct from _was -> n and _result -> n is not distinct from _now -> n;
        if _differ is not null then
            raise exception 'changed since' using errcode = 'WARVT';
        end if;
    end if;
    return jsonb_build_object('outcome', 'restored', 'kept', agent_internal.revert_differences(_was, _result, _names));
exception when others or assert_failure then
    get stacked diagnostics _state = returned_sqlstate, _message = message_text;
    if _state = 'WARVT' then
        return jsonb_strip_nulls(jsonb_build_object('outcome', 'refused', 'reason', _message)) || case when _differ is null then '{}'
                                                                                                       else jsonb_build_object('columns', _differ) end;
    end if;
    return agent_internal.revert_refusal(_state, _message);
end;
$$;

-- By column, two values that differ.
create or replace function agent_internal.revert_differences(_one jsonb, _other jsonb, _names text[])
    returns jsonb
    language sql
    immutable
    set search_path = pg_catalog, pg_temp
as $$
    select coalesce(jsonb_object_agg(n, jsonb_build_array(_one -> n, _other -> n)), '{}')
      from unnest(_names) n where _one -> n is distinct from _other -> n
$$;

-- Undo a step, in the caller's transaction; nothing of it if one of its rows is refused.
--
-- The order is found by trying: what fails (a parent is not there yet, a unique value is not free yet) is tried again after
-- the others.  A row that was restored can be changed by the trigger of a row that is restored later, which undoes the same
-- thing once more: all rows are locked, so it is the revert's own doing, and the row is set again.
--
-- Args: _entries: of a plan, the last change first; _definition: of the attachment of the run that is undone.
-- Returns done, and rows: the outcome of each entry, in their order.
create or replace function agent_internal.revert_step(_through text, _path text, _run bigint, _definition jsonb, _entries jsonb)
    returns jsonb
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _count   constant integer := jsonb_array_length(_entries);
    _c       jsonb[];
    _start   jsonb[] := array_fill(null::jsonb, array[_count]);  -- the rows as they were when they were locked
    _held    boolean[] := array_fill(false, array[_count]);      -- whether they held what the run wrote
    _out     jsonb[];
    _names   text[];
    _row     jsonb;
    _now     jsonb;
    _done    jsonb;
    _kept    text[];
    _n       integer;
    _tries   integer := 0;
    _more    boolean;
    _moved   boolean;
    _at_once boolean := false;
    _state   text;
    _message text;
begin
    for _n in 1 .. _count loop
        _c[_n] := agent_internal.revert_target(_entries -> (_n - 1));
        if not _c[_n] ? 'refuse' then
            begin
                _c[_n] := agent_internal.revert_values(_through, _c[_n]);
            exception when others then
                get stacked diagnostics _state = returned_sqlstate, _message = message_text;
                _c[_n] := _c[_n] || jsonb_build_object('refuse', agent_internal.revert_refusal(_state, _message) -> 'reason');
            end;
        end if;
    end loop;
    -- All rows, in one order: two reverts cannot wait for each other.
    for _n in select n from generate_series(1, _count) n
               order by (_c[n] ->> 'relation')::bigint, coalesce(nullif(_c[n] -> 'key_after', 'null'), _c[n] -> 'key')::text loop
        continue when _c[_n] ? 'refuse';
        _names := array(select jsonb_array_elements_text(_c[_n] -> 'names'));
        begin
            _row := agent_internal.revert_look(_through, _c[_n], array(
                select unnest(_names) union select unnest(agent_internal.recorded_columns(_definition, (_c[_n] ->> 'relation')::bigint::oid))), true, false);
        exception when others then
            get stacked diagnostics _state = returned_sqlstate, _message = message_text;
            _c[_n] := _c[_n] || jsonb_build_object('refuse', agent_internal.revert_refusal(_state, _message) -> 'reason');
            continue;
        end;
        _start[_n] := coalesce(agent_internal.part_of(_row, _names), case when _row is not null then '{}'::jsonb end);
        _held[_n] := case when _c[_n] ->> 'op' = 'delete' then _row is null else _start[_n] = _c[_n] -> 'became' end is true;
        insert into agent_internal.row_before (tenant, run_id, xid, n, relation, key, before)
        select r.tenant, _run, (pg_current_xact_id()::text::numeric % 4294967296)::bigint,
               (select count(*) from agent_internal.row_before b where b.run_id = _run), (_c[_n] ->> 'relation')::bigint::oid,
               agent_internal.key_in(coalesce(_row, nullif(_c[_n] -> 'was', 'null')), agent_internal.key_columns((_c[_n] ->> 'relation')::bigint::oid)),
               agent_internal.short_values(_row)
          from agent.run r where r.id = _run and (_row is not null or _c[_n] ->> 'op' = 'delete');
    end loop;
    loop
        _out := array_fill('{"outcome": "refused"}'::jsonb, array[_count]);
        begin
            if _at_once then set constraints all immediate; else set constraints all deferred; end if;
            loop
                _more := false;
                for _n in 1 .. _count loop
                    continue when _out[_n] ->> 'outcome' <> 'refused';
                    if _c[_n] ? 'refuse' then
                        _out[_n] := jsonb_build_object('outcome', 'refused', 'reason', _c[_n] -> 'refuse');
                        continue;
                    end if;
                    _names := array(select jsonb_array_elements_text(_c[_n] -> 'names'));
                    -- Whether it is undone was decided when it was locked: since then the triggers of other rows can have
                    -- changed it, also to what the run wrote, by chance.
                    _now := agent_internal.revert_look(_through, _c[_n], _names, false, false);
                    _done := case when _now is not distinct from _start[_n] or _now is null or _c[_n] ->> 'op' = 'delete'
                                  then agent_internal.revert_row(_through, _path, _c[_n], _now, _held[_n] and _now is distinct from _start[_n])
                                  when _held[_n] then agent_internal.revert_row(_through, _path, _c[_n], _now, true)
                                  else '{"outcome": "refused", "reason": "changed since", "columns": {}}' end;
                    _more := _more or _done ->> 'outcome' <> 'refused';
                    _out[_n] := _done;
                end loop;
                exit when not _more or not exists (select from unnest(_out) o where o ->> 'outcome' = 'refused');
            end loop;
            _tries := 0;
            loop
                -- Also fires deferred triggers, as the role.
                perform agent_internal.go_through(_through, 'select null::pg_catalog.text', null, null,
                                                  concat_ws(', ', nullif(_path, ''), 'pg_temp'), false, true);
                _tries := _tries + 1;
                _moved := false;
                for _n in 1 .. _count loop
                    _done := _out[_n];
                    continue when _done ->> 'outcome' = 'trigger' or _c[_n] ? 'refuse';  -- it holds others' changes, too
                    _names := array(select jsonb_array_elements_text(_c[_n] -> 'names'));
                    _now := agent_internal.revert_look(_through, _c[_n], _names, false, _done ->> 'outcome' <> 'refused');
                    if _done ->> 'outcome' = 'refused' then
                        -- Others changed it, and a trigger of the revert has taken this run's share back.
                        if _done ? 'columns' and _now is distinct from _start[_n] then
                            _out[_n] := jsonb_build_object('outcome', 'trigger', 'found', _now);
                        end if;
                        continue;
                    end if;
                    _kept := array(select jsonb_object_keys(coalesce(_done -> 'kept', '{}')));
                    continue when agent_internal.revert_differences(nullif(_c[_n] -> 'was', 'null'), _now, array(
                                      select unnest(_names) except select unnest(_kept))) = '{}'
                                  and (_now is null) = (_c[_n] ->> 'op' = 'insert');
                    _moved := true;
                    if _c[_n] ->> 'op' <> 'insert' and _now is not null and _tries < 6 and _held[_n] then
                        _names := array(select unnest(_names) except select unnest(_kept));
                        _done := agent_internal.revert_row(_through, _path, _c[_n] || jsonb_build_object(
                            'op', 'update', 'key_after', _c[_n] -> 'key', 'names', to_jsonb(_names), 'became', _now,
                            'was', agent_internal.part_of(_c[_n] -> 'was', _names)), agent_internal.part_of(_now, _names), true);
                        _out[_n] := jsonb_build_object(
                            'outcome', case when _done ->> 'outcome' = 'refused' then 'trigger' else 'restored' end,
                            'kept', coalesce(_out[_n] -> 'kept', '{}') || coalesce(_done -> 'kept', '{}'));
                    else
                        _out[_n] := jsonb_build_object('outcome', 'trigger', 'found', _now);
                    end if;
                end loop;
                exit when not _moved or _tries >= 6;
            end loop;
            -- A row that somebody has set back beside rows that were not: a total that counts it can hold what the run wrote by
            -- chance, and would be set back without it.  Rows of one table without triggers do not depend on another.
            if exists (select from unnest(_out) o where o ->> 'outcome' = 'restored')
               and ((select count(distinct e ->> 'relation') from unnest(_c) e) > 1
                    or exists (select from unnest(_c) e join pg_trigger t on t.tgrelid = (e ->> 'relation')::bigint::oid where not t.tgisinternal)) then
                for _n in 1 .. _count loop
                    if _out[_n] ->> 'outcome' = 'already'
                       and agent_internal.revert_look(_through, _c[_n], array(select jsonb_array_elements_text(_c[_n] -> 'names')), false, true)
                           is not distinct from _start[_n] then
                        _out[_n] := '{"outcome": "refused", "reason": "it is as before already, and other rows of its step are not"}';
                    end if;
                end loop;
            end if;
            if exists (select from unnest(_out) o where o ->> 'outcome' = 'refused') then
                raise exception 'refused' using errcode = 'WARVR';
            end if;
            return jsonb_build_object('done', true, 'rows', to_jsonb(_out));
        exception
            when sqlstate 'WARVR' then
                return jsonb_build_object('done', false, 'rows', to_jsonb(_out));
            when integrity_constraint_violation then
                get stacked diagnostics _message = message_text;
                -- A deferred constraint says only at the end that something is wrong: checks at once name the row.
                if _at_once then
                    return jsonb_build_object('done', false, 'rows', to_jsonb(array(
                        select case when o ->> 'outcome' = 'refused' then o else jsonb_build_object('outcome', 'refused', 'reason', _message) end
                          from unnest(_out) with ordinality as x (o, n) order by x.n)));
                end if;
                _at_once := true;
            when others then  -- of a trigger that was deferred
                get stacked diagnostics _state = returned_sqlstate, _message = message_text;
                return jsonb_build_object('done', false, 'rows', to_jsonb(array_fill(
                    agent_internal.revert_refusal(_state, _message), array[_count])));
        end;
    end loop;
end;
$$;

-- Carry a revert out, and record its result as a step: locks, marker, all its steps and the record in one transaction.
--
-- Args: _request: signed: run, lease, seq, call, name, run_as, path, definition, dry_run, only_unchanged; steps: [{step, commit_lsn,
--       entries}], the last first; about: what else the result has.
-- Returns the content of the step: revert has done, and of each step its outcomes.
-- Raises as agent_signed.call_tool() does.
create or replace function agent_signed.revert_run(_request text, _signature bytea)
    returns jsonb
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _call    constant jsonb := agent_internal.signed(_request, _signature);
    _started constant timestamptz := clock_timestamp();
    _durable constant text := current_setting('synchronous_commit');
    _run     constant bigint := _call -> 'run';
    _dry     constant boolean := coalesce((_call -> 'dry_run')::boolean, false);
    _some    constant boolean := coalesce((_call -> 'only_unchanged')::boolean, false);
    _through text;
    _step    jsonb;
    _done    jsonb;
    _steps   jsonb := '[]';
    _all     boolean;
    _any     boolean;
    _content jsonb;
begin
    perform agent_internal.begin_write(_run, (_call -> 'lease')::bigint);
    _through := agent_internal.trampoline_of((_call ->> 'run_as')::name);
    perform agent_internal.limit_lock_waits();
    begin
        for _step in select s.value from jsonb_array_elements(_call -> 'steps') with ordinality as s (value, n) order by s.n loop
            _done := agent_internal.revert_step(_through, _call ->> 'path', _run, _call -> 'definition', _step -> 'entries');
            _steps := _steps || ((_step - 'entries') || jsonb_build_object('done', _done -> 'done', 'rows', (
                select jsonb_agg(o.value || jsonb_build_object(
                           'table', e.value -> 'table', 'op', e.value -> 'op', 'omitted', e.value -> 'omitted',
                           'key', coalesce(nullif(e.value -> 'key_after', 'null'), e.value -> 'key')) order by n)
                  from jsonb_array_elements(_done -> 'rows') with ordinality as o (value, n)
                       join jsonb_array_elements(_step -> 'entries') with ordinality as e (value, n) using (n))));
        end loop;
        select coalesce(bool_and((s.value -> 'done')::boolean), true), coalesce(bool_or((s.value -> 'done')::boolean), false) into _all, _any
          from jsonb_array_elements(_steps) s;
        if _dry or not _all and not (_some and _any) then
            raise exception 'nothing is kept' using errcode = 'WARVR';
        end if;
    exception when sqlstate 'WARVR' then
        null;
    end;
    if not _dry and not _all and _some and _any then
        update agent.run set change = change || '{"partial": true}' where id = _run;
    end if;
    _content := jsonb_build_object('call_id', _call -> 'call', 'name', _call -> 'name', 'is_error', not _all and not (_some and _any),
                                   'content', '', 'revert', (_call -> 'about') || jsonb_build_object('done', _all, 'steps', _steps));
    if clock_timestamp() - _started > interval '1 second' then
        perform agent_internal.extend_lease(_run, (_call -> 'lease')::bigint, clock_timestamp() - _started);
    end if;
    perform agent_internal.insert_step(_run, (_call -> 'seq')::integer, 'result', _content,
                                       _duration_ms => extract(milliseconds from clock_timestamp() - _started)::integer);
    perform agent_internal.seal(_durable);
    return _content;
end;
$$;
comment on function agent_signed.revert_run(text, bytea) is 'Take back what a run changed as the role that it had, and record the result';
