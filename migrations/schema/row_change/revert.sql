-- Take back what runs changed.  Rows are read and written by the trampoline of the role that the run had.
--
-- A step is undone whole or not at all: it was one transaction, and a total that a trigger keeps would be set back without
-- the row that it counts.  Values are compared as texts of their types: `=` calls 1.0 and 1.00, or boxes of equal area, equal.
--
-- An entry of a plan is the net change of a row by a step: relation, op, key, key_after, before, after (texts by the names of
-- then), numbers (of columns), and refuse: a reason why it cannot be undone.  revert_target() adds what they are called now.

-- Whether what a run did is in effect: no revert of all of it is.  A run that was retried after it changed more.
create or replace function agent_internal.in_effect(_run bigint)
    returns boolean
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    return not exists (select from agent.run r
                        where r.undoes = _run and r.state = 'succeeded'
                          and not r.change ?| '{dry_run,partial}' and agent_internal.is_whole(r) and agent_internal.in_effect(r.id));
end;
$$;

-- Whether a revert takes back all that its run has changed: it was not retried since, or has changed nothing.
create or replace function agent_internal.is_whole(_revert agent.run)
    returns boolean
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select not exists (select from agent.row_change c
                        where c.run_id = _revert.undoes and c.commit_lsn > (_revert.change ->> 'lsn')::pg_lsn)
$$;
comment on function agent_internal.is_whole(agent.run) is 'Whether a revert takes back all that its run has changed';

-- Queue a run that takes back what a run changed.
--
-- The marker in its transaction lets the reader write its position at once: then all that the run changed is known.
--
-- Args: dry_run: find out what would be done, and do nothing;
--       only_unchanged: leave out steps with rows that cannot be undone.  Without it, one of them keeps all as it is.
-- Returns the ID of the new run.  Raises WA003 if the run cannot be reverted.
create or replace function agent.revert(run_id bigint, dry_run boolean default false, only_unchanged boolean default false)
    returns bigint
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _run  agent.run;
    _by   agent.run;
    _id   bigint;
    _what text;
begin
    perform agent_internal.check_role('approver');
    if dry_run is null or only_unchanged is null then
        raise exception 'dry_run and only_unchanged must be true or false, not NULL' using errcode = '22004';
    end if;
    select * into _run from agent.run r where r.id = revert.run_id for no key update;
    if not found then
        raise exception 'run % does not exist', revert.run_id using errcode = 'WA003';
    elsif _run.kind not in ('agent', 'turn', 'node', 'revert') or _run.change ? 'dry_run' then
        raise exception 'run % changed no rows: it is %', _run.id,
            case when _run.kind = 'revert' then 'a dry run' else format('of kind "%s"', _run.kind) end using errcode = 'WA003';
    elsif not agent_internal.is_final(_run.state) then
        raise exception 'run % is %; only runs that have ended can be reverted', _run.id, _run.state
            using errcode = 'WA003', hint = 'Cancel it, or wait for its end.';
    end if;
    select * into _by from agent.run r
     where r.undoes = _run.id and not r.change ?| '{dry_run,partial}' and agent_internal.is_whole(r)
       and (not agent_internal.is_final(r.state) or r.state = 'succeeded' and agent_internal.in_effect(r.id))
     order by r.id limit 1;
    if found then
        raise exception 'run % %', _run.id, case when _by.state = 'succeeded' then format('was reverted by run %s', _by.id)
                                                 else format('is being reverted by run %s', _by.id) end
            using errcode = 'WA003', hint = case when _by.state = 'succeeded'
                                                 then format('Revert run %s to put the changes into effect again.', _by.id)
                                                 else 'Wait for its end.' end;
    end if;
    insert into agent.run (tenant, kind, reason, queue_id, change, key, ordering_key, undoes)
    values (_run.tenant, 'revert', 'manual', agent_internal.queue_of('revert', 'reverts', _run.tenant),
            jsonb_strip_nulls(jsonb_build_object(
                'op', 'revert', 'schema', _run.change -> 'schema', 'table', _run.change -> 'table', 'run', _run.id,
                'dry_run', nullif(dry_run, false), 'only_unchanged', nullif(only_unchanged, false),
                'lsn', pg_current_wal_insert_lsn(), 'by', coalesce(agent.current_principal(), session_user))),
            _run.key, 'reverts', _run.id)
    returning id into _id;
    if not dry_run then
        perform agent_internal.audit('run.reverted', _run.id::text, jsonb_build_object('by_run', _id, 'only_unchanged', only_unchanged),
                                     _run.tenant);
    end if;
    _what := format('%s request', _id);
    perform pg_logical_emit_message(true, 'walagent', _what || ' ' || agent_internal.sign_write(_what, pg_current_xact_id()));
    perform agent_internal.wake_workers();
    return _id;
end;
$$;
comment on function agent.revert(bigint, boolean, boolean) is 'Take back what an ended run changed; return the ID of the run that does so';

-- The changes of a run by steps, the last first, and which changes of later runs they meet.  Those that a revert has taken back
-- before the run was retried are left out.
create or replace function agent_internal.changes_to_revert(_run bigint)
    returns jsonb
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select coalesce(jsonb_agg(jsonb_build_object(
               'commit_lsn', c.commit_lsn, 'step', c.step, 'relation', c.relation::bigint,
               'table', c.schema_name || '.' || c.table_name, 'op', c.op, 'key', c.key, 'old_key', c.old_key, 'before', c.before,
               'after', c.after, 'omitted', c.omitted, 'numbers', c.numbers,
               'later', (select jsonb_agg(jsonb_build_object('run', o.run_id, 'op', o.op, 'columns', o.columns) order by o.commit_lsn)
                           from agent.row_change o
                                join agent.run r on r.id = o.run_id and r.kind <> 'revert'
                          where (o.key = c.key or o.old_key = c.key) and o.relation = c.relation
                            and o.run_id <> c.run_id and o.commit_lsn > c.commit_lsn
                            and agent_internal.in_effect(o.run_id))) order by c.commit_lsn, c.ordinal), '[]')
      from agent.row_change c
     where c.run_id = _run
       and c.commit_lsn > coalesce((select max((v.change ->> 'lsn')::pg_lsn) from agent.run v
                                     where v.undoes = _run and v.state = 'succeeded' and not v.change ?| '{dry_run,partial}'
                                       and agent_internal.in_effect(v.id)), '0/0')
$$;
comment on function agent_internal.changes_to_revert(bigint) is 'The changes of a run, and which later runs changed the same rows';

-- What the table, columns and key of an entry are called now, and their types; or why it cannot be undone.
create or replace function agent_internal.revert_target(_c jsonb)
    returns jsonb
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _relation constant oid := (_c ->> 'relation')::bigint::oid;
    _before   constant jsonb := nullif(_c -> 'before', 'null');
    _after    constant jsonb := nullif(_c -> 'after', 'null');
    _keys     constant text[] := array(select jsonb_object_keys(coalesce(nullif(_c -> 'key_after', 'null'), nullif(_c -> 'key', 'null'), '{}')));
    _was      text[];
    _table    text;
    _only     text;  -- a row of a child that inherits is not of the table
    _columns  jsonb;
    _lost     text;
begin
    if _c ? 'refuse' then
        return _c;
    end if;
    _was := case _c ->> 'op'
                when 'update' then array(select k from jsonb_object_keys(_after) k where _before -> k is distinct from _after -> k)
                when 'insert' then array(select jsonb_object_keys(_after)) else array(select jsonb_object_keys(_before)) end;
    select format('%I.%I', n.nspname, c.relname), case c.relkind when 'p' then '' else 'only ' end into _table, _only
      from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = _relation;
    if _table is null then
        return _c || jsonb_build_object('refuse', 'the table was dropped');
    end if;
    select min(n) filter (where a.attname is null),
           jsonb_object_agg(n, jsonb_build_array(a.attname, format_type(a.atttypid, a.atttypmod), a.attgenerated <> ''))
      into _lost, _columns
      from (select distinct unnest(_was || _keys) as n) w
           left join pg_attribute a on a.attrelid = _relation and a.attnum = (_c -> 'numbers' ->> n)::smallint and not a.attisdropped;
    if _lost is not null then
        return _c || jsonb_build_object('refuse', format('column "%s" was dropped or altered', _lost));
    elsif (select array_agg(v.value ->> 0 order by v.value ->> 0) from jsonb_each(_columns) v where v.key = any (_keys))
          is distinct from (select array_agg(k order by k) from unnest(agent_internal.key_columns(_relation)) k) then
        return _c || jsonb_build_object('refuse', 'the primary key of the table is another one');
    end if;
    select min(a.attname) into _lost
      from pg_attribute a
     where a.attrelid = _relation and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
       and not exists (select from jsonb_each_text(_c -> 'numbers') n where n.value::smallint = a.attnum);
    if _c ->> 'op' = 'insert' and _lost is not null then
        return _c || jsonb_build_object('refuse', format('column "%s" was added, and can have values of others', _lost));
    end if;
    return _c || jsonb_build_object(
        'now', _table, 'only', _only, 'columns', _columns,
        'names', (select coalesce(jsonb_agg(v.value -> 0 order by v.key), '[]') from jsonb_each(_columns) v
                   where v.key = any (_was) and not (v.value -> 2)::boolean));
end;
$$;

-- The values of an entry as the present types of its columns write them: 1.00 is 1.0000 after the column was altered.
--
-- Returns the entry with was and became, by the present names.
create or replace function agent_internal.revert_values(_through text, _c jsonb)
    returns jsonb
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _found jsonb;
    _texts text[] := '{}';
    _text  text;
    _names text;
    _side  text;
begin
    foreach _side in array '{before,after}'::text[] loop
        select string_agg(quote_literal(v.value ->> 0), ', ' order by v.key),
               string_agg(agent_internal.text_of(format('%L::%s', _c -> _side ->> v.key, v.value ->> 1)), ', ' order by v.key)
          into _names, _text
          from jsonb_each(_c -> 'columns') v where _c -> 'names' ? (v.value ->> 0);
        _texts := array_append(_texts, _text);
    end loop;
    if _names is null then  -- only generated columns differ
        return _c || '{"was": {}, "became": {}}';
    end if;
    _found := agent_internal.read_texts(_through, format(
        'select pg_catalog.jsonb_build_array(pg_catalog.jsonb_object(array[%1$s]::pg_catalog.text[], array[%2$s]::pg_catalog.text[]),'
        ' pg_catalog.jsonb_object(array[%1$s]::pg_catalog.text[], array[%3$s]::pg_catalog.text[]))', _names, _texts[1], _texts[2]), '{}')::jsonb;
    return _c || jsonb_build_object('was', case when _c ->> 'op' <> 'insert' then _found -> 0 end,
                                    'became', case when _c ->> 'op' <> 'delete' then _found -> 1 end);
end;
$$;

-- The clauses that find the row of a key: `from ...` and `where ...`, as `t`.
create or replace function agent_internal.revert_place(_c jsonb, _key jsonb)
    returns text
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select format('(select %s) as k where %s',
                  string_agg(format('%L::%s as %I', _key ->> v.key, v.value ->> 1, v.value ->> 0), ', '),
                  agent_internal.same_key((_c ->> 'relation')::bigint::oid))
      from jsonb_each(_c -> 'columns') v where _key ? v.key
$$;

-- The row of an entry as it is now: texts by column; NULL: there is none, or the role cannot see it.
--
-- Args: _names: the columns; _undone: look for the key that it had before.
create or replace function agent_internal.revert_look(_through text, _c jsonb, _names text[], _lock boolean, _undone boolean)
    returns jsonb
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _before constant jsonb := nullif(_c -> 'key', 'null');
    _after  constant jsonb := nullif(_c -> 'key_after', 'null');
    _key    jsonb;
    _found  text;
begin
    foreach _key in array case when _undone and _before is not null then array[_before]
                               when _after = _before then array[_after] else array[_after, _before] end loop
        continue when _key is null;
        _found := agent_internal.read_texts(_through, format(
            'select pg_catalog.jsonb_object(array[%s]::pg_catalog.text[], array[%s]::pg_catalog.text[]) from %s as t, %s%s',
            (select string_agg(quote_literal(c), ', ' order by n) from unnest(_names) with ordinality as x (c, n)),
            (select string_agg(agent_internal.text_of(format('t.%I', c)), ', ' order by n) from unnest(_names) with ordinality as x (c, n)),
            (_c ->> 'only') || (_c ->> 'now'), agent_internal.revert_place(_c, _key),
            case when not _lock then '' when _c ->> 'op' = 'insert' then ' for update of t' else ' for no key update of t' end), '{}');
        if _found is not null then
            return _found::jsonb;
        end if;
    end loop;
    return null;
end;
$$;

-- Execute a statement that restores a row, with the search_path of the attachment, for the triggers that it fires.  Its
-- literals are intervals as the reader writes them; dates are ISO in any style.
create or replace function agent_internal.revert_write(_through text, _sql text, _path text)
    returns text
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set intervalstyle = 'postgres'
as $$
begin
    return agent_internal.go_through(_through, _sql, null, null, concat_ws(', ', nullif(_path, ''), 'pg_temp'), false, false);
end;
$$;

-- A foreign key by which the deletion of a row would delete or change rows of others; NULL: none has such rows.  NO ACTION and
-- RESTRICT refuse by themselves.
create or replace function agent_internal.revert_children(_through text, _c jsonb, _now jsonb, _set text[] default null)
    returns text
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _child record;
begin
    for _child in
        select k.conrelid, n.nspname || '.' || c.relname as name, format('%I.%I', n.nspname, c.relname) as quoted,
               bool_or(not _now ? p.attname) as unknown,
               string_agg(format('%L::%s operator(%I.%s) x.%I', _now ->> p.attname, format_type(p.atttypid, p.atttypmod), m.nspname, o.oprname,
                                 f.attname), ' and ') as same
          from pg_constraint k
               join pg_class c on c.oid = k.conrelid join pg_namespace n on n.oid = c.relnamespace
               cross join lateral unnest(k.conkey, k.confkey, k.conpfeqop) as u (child, parent, op)
               join pg_attribute f on f.attrelid = k.conrelid and f.attnum = u.child
               join pg_attribute p on p.attrelid = k.confrelid and p.attnum = u.parent
               join pg_operator o on o.oid = u.op join pg_namespace m on m.oid = o.oprnamespace
         where k.contype = 'f' and k.conparentid = 0
           and k.confrelid in (select relid from pg_partition_tree((_c ->> 'relation')::bigint::oid) union select (_c ->> 'relation')::bigint::oid)
           and case when _set is null then k.confdeltype else k.confupdtype end = any (case when _set is null then '{c,n,d}'::"char"[] else '{n,d}' end)
         group by k.oid, k.conrelid, n.nspname, c.relname
        having _set is null or bool_or(p.attname = any (_set) or p.attgenerated <> '')
         order by 2
    loop
        if agent_internal.read_texts(_through, format('select pg_catalog.row_security_active(%s::pg_catalog.oid)', _child.conrelid::bigint), '{}')::boolean then
            return format('policies can hide rows of %s that refer to it', _child.name);
        elsif _child.unknown then
            return format('rows of %s can refer to it by values that are not known', _child.name);
        elsif agent_internal.read_texts(_through, format('select exists (select from %s as x where %s)', _child.quoted, _child.same), '{}')::boolean then
            return format('rows of %s refer to it', _child.name);
        end if;
    end loop;
    return null;
end;
$$;
