-- Record what runs changed: the row before update_row in its own transaction, the rest by the reader.

-- The run as whose role a run acts: one that takes others back acts as the role of the first of them.
create or replace function agent_internal.acting_run(_run bigint)
    returns bigint
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    with recursive undone (id, undoes) as (
        select r.id, r.undoes from agent.run r where r.id = _run
        union all
        select r.id, r.undoes from undone u join agent.run r on r.id = u.undoes
    )
    select u.id from undone u where u.undoes is null
$$;

-- The columns of a table whose values are recorded for a run: those that its role can read, and of the table of its
-- attachment those that the agent is shown or writes.  So who reads steps reads no more here.
--
-- Args: _definition: of the attachment of the run; NULL: none, and no column.
create or replace function agent_internal.recorded_columns(_definition jsonb, _relation oid)
    returns text[]
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
as $$
begin
    return (
    select array(
        select a.attname::text
          from pg_attribute a join pg_class c on c.oid = a.attrelid
               join pg_roles l on l.rolname = _definition ->> 'run_as'
         where a.attrelid = _relation and a.attnum > 0 and not a.attisdropped
           and has_schema_privilege(l.oid, c.relnamespace, 'usage')
           and has_column_privilege(l.oid, c.oid, a.attnum, 'select')
           and (_relation::bigint <> (_definition -> 'relation_oid')::bigint
                or jsonb_typeof(_definition -> 'columns') is distinct from 'array'
                or _definition -> 'columns' ? a.attname::text
                or _definition -> 'key_columns' ? a.attname::text
                or _definition -> 'writes' ? a.attname::text)
         order by a.attnum));
end;
$$;

-- Whether row-level security of a table applies to a role.
create or replace function agent_internal.has_policies_for(_relation oid, _role name)
    returns boolean
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select coalesce((
        select c.relrowsecurity and not exists (
                   select from pg_roles l
                    where l.rolname = _role and (l.rolsuper or l.rolbypassrls
                                                 or not c.relforcerowsecurity and pg_has_role(l.oid, c.relowner, 'usage')))
          from pg_class c where c.oid = _relation), true)
$$;

-- The text of a value, as its output function writes it: a cast to text is another function for some types (inet, bool), and
-- `is null` is true of a row whose fields are all NULL.
--
-- Args: _value: an expression.
create or replace function agent_internal.text_of(_value text)
    returns text
    language plpgsql
    immutable
    set search_path = pg_catalog, pg_temp
as $$
begin
    return format('case when pg_catalog.num_nulls(%1$s) = 0 then pg_catalog.concat(%1$s) end', _value);
end;
$$;

-- Execute a statement by a trampoline, with the formats in which the reader has values.
create or replace function agent_internal.read_texts(_through text, _sql text, _arguments jsonb)
    returns text
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set datestyle = 'ISO'
    set intervalstyle = 'postgres'
    set timezone = 'UTC'
    set extra_float_digits = 3
    set bytea_output = 'hex'
as $$
begin
    return agent_internal.go_through(_through, _sql, _arguments, null, '', false, false);
end;
$$;

-- The statement that reads the recorded columns of a row as texts, by its key as $1; NULL: not all of its key is recorded.
create or replace function agent_internal.row_statement(_run bigint, _relation oid, _key jsonb)
    returns text
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _keys    constant text[] := agent_internal.key_columns(_relation);
    _columns text[];
begin
    select agent_internal.recorded_columns(v.definition, _relation) into _columns
      from agent.run r
           join agent.attachment_version v on v.attachment_id = r.attachment_id and v.version = r.attachment_version
     where r.id = _run;
    if not _columns @> _keys or not _key ?& _keys or _keys = '{}' then
        return null;  -- if the key is another one, the call fails
    end if;
    return (
        select format('select pg_catalog.jsonb_object(array[%s]::pg_catalog.text[], array[%s]::pg_catalog.text[])'
                      ' from %I.%I as t, pg_catalog.jsonb_to_record($1) as k (%s) where %s',
                      string_agg(quote_literal(a.attname), ', ' order by a.attnum),
                      string_agg(agent_internal.text_of(format('t.%I', a.attname)), ', ' order by a.attnum),
                      n.nspname, c.relname,
                      -- Without the type modifier: reading a value must neither truncate nor pad it.
                      string_agg(format('%I %s', a.attname, format_type(a.atttypid, -1)), ', ') filter (where a.attname = any (_keys)),
                      agent_internal.same_key(_relation))
          from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid
         where c.oid = _relation and a.attname = any (_columns) and a.attnum > 0
         group by n.nspname, c.relname);
end;
$$;

-- Record a row before a call of update_row, and lock it: the call updates what is recorded.
--
-- On its own, before the update: one statement for both would write values in the formats of the session, which the
-- application's triggers rely on.
create or replace function agent_internal.record_before(_run bigint, _through text, _relation oid, _key jsonb)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _sql   constant text := agent_internal.row_statement(_run, _relation, _key);
    _found jsonb;
begin
    if _sql is not null then
        _found := agent_internal.read_texts(_through, _sql || ' for no key update of t', _key)::jsonb;
    end if;
    if _found is not null then
        insert into agent_internal.row_before (tenant, run_id, xid, relation, key, before)
        select r.tenant, _run, (pg_current_xact_id()::text::numeric % 4294967296)::bigint, _relation,
               (select jsonb_object_agg(k, _found -> k) from jsonb_object_keys(_key) k), agent_internal.short_values(_found)
          from agent.run r where r.id = _run;
    end if;
end;
$$;

-- Forget what this transaction has recorded of a row that it did not update after all.
create or replace function agent_internal.forget_before(_run bigint)
    returns void
    language sql
    set search_path = pg_catalog, pg_temp
as $$
    delete from agent_internal.row_before b
     where b.run_id = _run and b.xid = (pg_current_xact_id()::text::numeric % 4294967296)::bigint
$$;

-- Record a row after a call of update_row, if updates of its table are not published: its agents react to inserts alone, and
-- publishing updates could make those of the application fail.
create or replace function agent_internal.record_after(_run bigint, _through text, _relation oid, _key jsonb)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _sql text;
begin
    if exists (select from pg_publication_rel r join pg_publication p on p.oid = r.prpubid
                where p.pubname = 'walagent' and r.prrelid = _relation) then
        return;
    end if;
    _sql := agent_internal.row_statement(_run, _relation, _key);
    if _sql is not null then
        update agent_internal.row_before b
           set after = agent_internal.short_values(agent_internal.read_texts(_through, _sql, _key)::jsonb)
         where b.run_id = _run and b.xid = (pg_current_xact_id()::text::numeric % 4294967296)::bigint;
    end if;
end;
$$;

-- An image without values that are too large to be recorded.  The reader has the same limit.
create or replace function agent_internal.short_values(_image jsonb)
    returns jsonb
    language plpgsql
    immutable
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
as $$
begin
    return (
        select coalesce(jsonb_object_agg(v.key, v.value) filter (where length(v.value #>> '{}') <= 65536 or v.value = 'null'), '{}')
          from jsonb_each(_image) v);
end;
$$;

-- Those columns of an image that are named; NULL: there are none, or there is no image.
create or replace function agent_internal.part_of(_image jsonb, _columns text[])
    returns jsonb
    language plpgsql
    immutable
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
as $$
begin
    return (select jsonb_object_agg(v.key, v.value) from jsonb_each(_image) v where v.key = any (_columns));
end;
$$;

-- The key in an image; NULL: not all of it is there.
create or replace function agent_internal.key_in(_image jsonb, _columns text[])
    returns jsonb
    language plpgsql
    immutable
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
as $$
begin
    return case when _image ?& _columns and _columns <> '{}' then agent_internal.part_of(_image, _columns) end;
end;
$$;

-- Wait until transactions are visible: the server sends a commit when it is written, which is before others see it, and long
-- before if it waits for a standby.  Then what they recorded of themselves is found.
--
-- Args: _xids: their lower 32 bits.  Waits for at most 10 seconds: a standby that does not answer must not stop the reader.
create or replace function agent_internal.await_visible(_xids bigint[])
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _until constant timestamptz := clock_timestamp() + interval '10 s';
    _next  constant bigint := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
    _wrap  constant bigint := 4294967296;
    _full  xid8[];
begin
    -- The transaction is one of the last 2,000 million.
    _full := array(select (x.id + case when x.id > _next + _wrap / 2 then -_wrap when x.id < _next - _wrap / 2 then _wrap else 0 end)::text::xid8
                     from (select _next / _wrap * _wrap + n as id from unnest(_xids) n) x);
    while clock_timestamp() < _until
          and not (select coalesce(bool_and(pg_visible_in_snapshot(x, pg_current_snapshot())), true) from unnest(_full) x) loop
        perform pg_sleep(0.001);
    end loop;
end;
$$;

-- Record changes that the reader found in transactions of runs, in the transaction that advances the checkpoint.
--
-- Each entry has the changes of one table in one transaction.  What the catalog says of the table is of now; a column or a key
-- that was altered since the transaction began is left out, for it can be another one with the same name.
--
-- Args: _changes: {"changes": [{run, xid, commit_lsn, committed_at, relation, schema, table, key (columns; null: ask the
--       catalog), rows: [{n, op, old, new, first, omitted}], more, more_at}], "ended": [[run, xid, commit_lsn, committed_at], ...]}.
create or replace function agent_internal.record_row_changes(_changes jsonb)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off
as $$
declare
    _group      jsonb;
    _tenant     text;
    _definition jsonb;
    _xid        xid;
    _relation   oid;
    _columns    text[];
    _key        text[];
    _numbers    jsonb;
    _hidden     boolean;
    _named      boolean;  -- whether the call says which rows are its own
    _step       integer;
begin
    perform agent_internal.await_visible(array(
        select distinct (e.value -> 1)::bigint from jsonb_array_elements(_changes -> 'ended') e));
    for _group in select g.value from jsonb_array_elements(_changes -> 'changes') with ordinality as g (value, n) order by g.n loop
        select r.tenant, v.definition into _tenant, _definition
          from agent.run r
               left join agent.run a on a.id = case when r.undoes is null then r.id else agent_internal.acting_run(r.id) end
               left join agent.attachment_version v on v.attachment_id = a.attachment_id and v.version = a.attachment_version
         where r.id = (_group -> 'run')::bigint;
        continue when not found;  -- it was removed meanwhile
        _xid := (_group ->> 'xid')::xid;
        _relation := agent_internal.relation_in_wal((_group -> 'relation')::bigint, _group ->> 'schema', _group ->> 'table');
        _columns := agent_internal.recorded_columns(_definition, _relation);
        _hidden := agent_internal.has_policies_for(_relation, (_definition ->> 'run_as')::name);
        _numbers := (select jsonb_object_agg(a.attname, a.attnum) from pg_attribute a
                      where a.attrelid = _relation and a.attname = any (_columns) and a.attnum > 0
                        and not age(a.xmin) between 0 and age(_xid) - 1);
        _key := case when jsonb_typeof(_group -> 'key') = 'array' then array(select jsonb_array_elements_text(_group -> 'key'))
                     when not exists (select from pg_index i where i.indrelid = _relation and i.indisprimary
                                                               and age(i.xmin) between 0 and age(_xid) - 1)
                     then agent_internal.key_columns(_relation) end;
        _named := exists (select from agent_internal.row_before b
                           where b.run_id = (_group -> 'run')::bigint and b.xid = (_group -> 'xid')::bigint);
        select max(s.seq) into _step from agent.step s
         where s.run_id = (_group -> 'run')::bigint and s.xmin = _xid and s.kind = 'result';
        insert into agent.row_change (tenant, run_id, commit_lsn, ordinal, step, xid, committed_at, relation, schema_name, table_name,
                                      op, source, key, old_key, columns, before, after, omitted, numbers)
        select _tenant, (_group -> 'run')::bigint, (_group ->> 'commit_lsn')::pg_lsn, c.n, _step, (_group -> 'xid')::bigint,
               (_group ->> 'committed_at')::timestamptz, _relation, _group ->> 'schema', _group ->> 'table', c.op, x.source,
               x.key, nullif(x.old_key, x.key),
               case when c.op = 'update' and x.before ?& array(select jsonb_object_keys(x.after))
                    then array(select k from jsonb_object_keys(x.after) k where x.before -> k is distinct from x.after -> k order by 1) end,
               x.before, x.after,
               array(select o from jsonb_array_elements_text(c.omitted) o where c.op <> 'delete' or not coalesce(x.before ? o, false)
                      union select k from jsonb_object_keys(coalesce(c.new, c.old, '{}')) k where not k = any (x.columns) order by 1),
               coalesce(agent_internal.part_of(_numbers, array(select jsonb_object_keys(coalesce(x.after, '{}') || coalesce(x.before, '{}')))), '{}')
          from jsonb_to_recordset(_group -> 'rows')
                   as c (n integer, op text, old jsonb, new jsonb, first boolean, omitted jsonb)
               cross join lateral (
                   select agent_internal.key_in(coalesce(c.new, c.old), _key) as key, agent_internal.key_in(c.old, _key) as old_key
                   offset 0) k  -- evaluated once, though it is used often; so is x
               left join lateral (
                   select 'statement' as source, b.before
                     from agent_internal.row_before b
                    where _named and b.run_id = (_group -> 'run')::bigint and b.xid = (_group -> 'xid')::bigint
                      and b.relation = _relation and b.key in (k.key, k.old_key)
                    order by b.n limit 1) b on true
               cross join lateral (select coalesce(b.source, case when _named then 'trigger' end) as source) s
               cross join lateral (
                   select s.source, case when _hidden and s.source is distinct from 'statement' then '{}' else _columns end as columns) w
               cross join lateral (
                   select w.source, w.columns,
                          case when w.columns @> _key then k.key end as key, case when w.columns @> _key then k.old_key end as old_key,
                          case when c.op in ('update', 'delete') and b.before is not null and c.first
                               then agent_internal.part_of(b.before || coalesce(c.old, '{}'), w.columns)
                               else agent_internal.part_of(c.old, w.columns) end as before,
                          agent_internal.part_of(c.new, w.columns) as after
                   offset 0) x
         order by c.n
        on conflict do nothing;
        if (_group -> 'more')::bigint > 0 then
            insert into agent.row_change (tenant, run_id, commit_lsn, ordinal, step, xid, committed_at, relation, schema_name, table_name, op, rows)
            values (_tenant, (_group -> 'run')::bigint, (_group ->> 'commit_lsn')::pg_lsn, (_group -> 'more_at')::integer, _step,
                    (_group -> 'xid')::bigint, (_group ->> 'committed_at')::timestamptz, _relation, _group ->> 'schema', _group ->> 'table',
                    'more', (_group -> 'more')::bigint)
            on conflict do nothing;
        end if;
    end loop;
    insert into agent.row_change (tenant, run_id, commit_lsn, ordinal, step, xid, committed_at, relation, schema_name, table_name,
                                  op, source, key, columns, before, after, omitted, numbers)
    select b.tenant, b.run_id, (e.value ->> 2)::pg_lsn, 1000000000 + b.n,
           (select max(s.seq) from agent.step s where s.run_id = b.run_id and s.xmin = (e.value ->> 1)::xid and s.kind = 'result'),
           b.xid, (e.value ->> 3)::timestamptz, b.relation, n.nspname, c.relname, 'update', 'statement', b.key,
           array(select k from jsonb_object_keys(b.after) k where b.before -> k is distinct from b.after -> k order by 1), b.before, b.after,
           array(select a.attname::text from pg_attribute a
                  where a.attrelid = b.relation and a.attnum > 0 and not a.attisdropped and not b.after ? a.attname::text order by 1),
           (select coalesce(jsonb_object_agg(a.attname, a.attnum), '{}') from pg_attribute a
             where a.attrelid = b.relation and b.after ? a.attname::text and a.attnum > 0
               and not age(a.xmin) between 0 and age((e.value ->> 1)::xid) - 1)
      from jsonb_array_elements(_changes -> 'ended') e
           join agent_internal.row_before b on b.run_id = (e.value -> 0)::bigint and b.xid = (e.value -> 1)::bigint
           join pg_class c on c.oid = b.relation join pg_namespace n on n.oid = c.relnamespace
     where b.after is not null
       and not exists (select from agent.row_change o where o.run_id = b.run_id and o.xid = b.xid and o.relation = b.relation
                                                        and b.key in (o.key, o.old_key))
    on conflict do nothing;
    delete from agent_internal.row_before b
     using jsonb_array_elements(_changes -> 'ended') e
     where b.run_id = (e.value -> 0)::bigint and b.xid = (e.value -> 1)::bigint;
end;
$$;
comment on function agent_internal.record_row_changes(jsonb) is 'Record the rows that transactions of runs changed';

-- Those values of a row that the caller's own login can read in its table now; none if policies apply to it: they cannot
-- judge a row of the past.
--
-- Args: _numbers: of the columns, by the names that they had: another column can have the name now.
create or replace function agent_internal.readable_part(_relation oid, _image jsonb, _numbers jsonb)
    returns jsonb
    language sql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
    select agent_internal.part_of(_image, array(
        select n.key
          from jsonb_each_text(_numbers) n
               join pg_attribute a on a.attrelid = _relation and a.attnum = n.value::smallint
               join pg_class c on c.oid = a.attrelid
               join pg_roles l on l.rolname = agent_internal.own_login()
         where a.attnum > 0 and not a.attisdropped
           and has_schema_privilege(l.oid, c.relnamespace, 'usage')
           and has_column_privilege(l.oid, c.oid, a.attnum, 'select')
           and not agent_internal.has_policies_for(c.oid, l.rolname)))
$$;
comment on function agent_internal.readable_part(oid, jsonb, jsonb) is 'The values of a row that the caller can read in its table';
