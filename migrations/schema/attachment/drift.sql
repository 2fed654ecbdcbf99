-- Drift: what happens if the table, key, roles or functions of an attachment change.
--
-- An attachment is defined once; the tables go on to change.  A broken attachment is paused, with the reason.
-- Changes that cannot be evaluated meanwhile are stored whole, each with a pending run.  Resuming checks the
-- attachment again, and each deferred change is then evaluated by the definition as of then.

-- Pause an attachment none of whose runs can succeed: its credential is rejected, or its table was dropped.  An
-- attachment that another transaction is changing is skipped.
--
-- Returns true if this call paused it, false if it was paused before, otherwise NULL.
create or replace function agent_internal.pause_broken(_attachment_id bigint, _reason text)
    returns boolean
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform from agent.attachment where id = _attachment_id and not paused for no key update skip locked;
    if found then
        update agent.attachment set paused = true, paused_reason = _reason where id = _attachment_id;
        return true;
    end if;
    return (select false from agent.attachment where id = _attachment_id and paused);
end;
$$;
comment on function agent_internal.pause_broken(bigint, text) is 'Pause an attachment none of whose runs can succeed';

create or replace function agent_internal.drop_message(_definition jsonb)
    returns text
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select format('table %s was dropped', t.name)
           || case when to_regclass(t.name) is not null then '; the table with its name is a new one' else '' end
      from format('%I.%I', _definition ->> 'schema', _definition ->> 'table') as t (name)
$$;
comment on function agent_internal.drop_message(jsonb) is 'The message for an attachment whose table was dropped';

create or replace function agent_internal.reattach_message(_attachment agent.attachment)
    returns text
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select format('To attach to another table: update agent.attachment set relation = %L where name = %L; '
                  'select agent.resume(%L). Otherwise: select agent.detach(%L)',
                  format('%I.%I', (_attachment).definition ->> 'schema', (_attachment).definition ->> 'table'),
                  (_attachment).name, (_attachment).name, (_attachment).name)
$$;
comment on function agent_internal.reattach_message(agent.attachment) is 'The hint for an attachment whose table was dropped';

-- Whether changes still arrive under the name of the attached table.  The publications are checked when the stream
-- opens: they affect a table for all its agents.
create or replace function agent_internal.stream_drift(_relation regclass, _definition jsonb)
    returns text
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select coalesce(
        (select format('%s is now a partition of %s, and its changes are published as those of the parent', _relation, p.relid)
           from pg_partition_ancestors(_relation) p
          where p.relid <> _relation
            and exists (select from pg_publication_rel r join pg_publication b on b.oid = r.prpubid
                         where r.prrelid = p.relid and b.pubname in ('walagent', 'walagent_inserts'))
          limit 1),
        -- As attaching refuses: a child of a partitioned table is a partition, one of any other table has rows of its own.
        (select format('rows of %s can be in %s, which inherits from it; they start no run', _relation, i.inhrelid::regclass)
           from pg_inherits i join pg_class c on c.oid = i.inhparent
          where i.inhparent = _relation and c.relkind = 'r'
          order by i.inhrelid
          limit 1),
        -- wal2json receives the names of tables when the stream opens.
        (select case when c.relkind = 'p' then format('wal2json sends the changes of partitions under their own names, not as those of %s', _relation)
                     else format('%s.%s is now named %s, and wal2json has sent no change of it since', _definition ->> 'schema',
                                 _definition ->> 'table', _relation) end
           from pg_class c join pg_namespace n on n.oid = c.relnamespace
          where c.oid = _relation and exists (select from agent.checkpoint where plugin = 'wal2json')
            and (c.relkind = 'p' or (n.nspname, c.relname) is distinct from (_definition ->> 'schema', _definition ->> 'table'))))
$$;
comment on function agent_internal.stream_drift(regclass, jsonb) is 'Why the changes of a table no longer arrive as those of the attached table';

create or replace function agent_internal.tool_drift(_relation regclass, _definition jsonb)
    returns text
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    with called (tool, function) as materialized (
        -- Before version 16, to_regprocedure() raises for what is not a function: not called for other kinds.
        select t, case when t ->> 'kind' = 'sql' then to_regprocedure(t ->> 'target') end
          from jsonb_array_elements(_definition -> 'tools') t
    )
    select coalesce(
        (select format('function %s does not exist; it is called by tool "%s"', tool ->> 'target', tool ->> 'name')
           from called where tool ->> 'kind' = 'sql' and function is null
          limit 1),
        (select agent_internal.exchanged_function(tool) from called where agent_internal.exchanged_function(tool) is not null limit 1),
        (select format('arguments of function %s were renamed; it is called by tool "%s"', tool ->> 'target', tool ->> 'name')
           from called
          where agent_internal.argument_names(function) <> array(select a ->> 'name' from jsonb_array_elements(tool -> 'arguments') a)
          limit 1),
        (select format('"%s" is no longer a value of %s.%s, and tool "%s" offers it', v.label, _relation, p.key, t ->> 'name')
           from jsonb_array_elements(_definition -> 'tools') t,
                jsonb_each(t -> 'input_schema' -> 'properties') p,
                jsonb_array_elements_text(p.value -> 'enum') v (label)
          where t ->> 'target' = 'update_row' and t ->> 'kind' = 'builtin'
            and not coalesce(agent_internal.column_schema(_relation, p.key) -> 'enum' ? v.label, true)
          limit 1))
$$;
comment on function agent_internal.tool_drift(regclass, jsonb) is 'A tool that can no longer be called as it was defined';

-- A column among *_writes* that takes any text; NULL: each has a list of values, or is a truth value, number, date or time.
create or replace function agent_internal.free_column(_relation regclass, _writes text[])
    returns text
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    with recursive held (name, type) as (
        select attname::text, atttypid from pg_attribute where attrelid = _relation and attname = any (_writes) and attnum > 0
        union all
        select h.name, t.typbasetype from held h join pg_type t on t.oid = h.type where t.typtype = 'd'
    )
    select h.name
      from held h join pg_type t on t.oid = h.type
     where t.typtype <> 'd' and t.typcategory not in ('B', 'D', 'E', 'N', 'T')
       and not agent_internal.column_schema(_relation, h.name) ? 'enum'
     order by array_position(_writes, h.name)
     limit 1
$$;
comment on function agent_internal.free_column(regclass, text[]) is 'A column that takes any text';

-- Why rows of a table must not be in one request; NULL: they can be.  A text in one of them can let the model copy another one
-- into a column that takes it: to a reader whom row-level security hides the other row from.
create or replace function agent_internal.rows_drift(_relation regclass, _writes text[])
    returns text
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select format('rows_per_request: %s has row-level security, and column "%s" takes any text, also that of another row', _relation, c)
      from agent_internal.free_column(_relation, _writes) c
     where c is not null
       and exists (select from pg_class where relrowsecurity
                      and oid in (select _relation union all select relid from pg_partition_tree(_relation)))
$$;
comment on function agent_internal.rows_drift(regclass, text[]) is 'Why rows of a table must not be in one request';

create or replace function agent_internal.rows_drift(_definition jsonb)
    returns text
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select agent_internal.rows_drift((_definition ->> 'relation_oid')::oid::regclass,
                                     array(select jsonb_array_elements_text(_definition -> 'writes')))
     where _definition ->> 'rows_per_request' is not null
$$;
comment on function agent_internal.rows_drift(jsonb) is 'Why rows of a table must no longer be in one request';

-- Reject rows of a table in one request that must not be.
create or replace function agent_internal.check_rows_apart(_relation regclass, _writes text[])
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _reason constant text := agent_internal.rows_drift(_relation, _writes);
begin
    if _reason is not null then
        raise exception '%', _reason
            using errcode = 'WA010', hint = 'Remove rows_per_request, or let the column have a CHECK list or an enum type.';
    end if;
end;
$$;
comment on function agent_internal.check_rows_apart(regclass, text[]) is 'Reject rows in one request that must not be';

-- Why an attachment of this definition is broken; NULL if it is not.
--
-- The condition is not compiled here: the reader does so at the first change, and resuming compiles it again.
create or replace function agent_internal.drift_of(_definition jsonb)
    returns text
    language plpgsql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _relation constant regclass := (_definition ->> 'relation_oid')::oid;
    _reason   text;
begin
    if not exists (select from pg_class where oid = _relation) then
        return agent_internal.drop_message(_definition);
    end if;
    select reason into _reason
      from (select agent_internal.column_drift(_relation, _definition)
            union all select agent_internal.identity_drift(_relation, _definition)
            union all select agent_internal.stream_drift(_relation, _definition)
            union all select agent_internal.tool_drift(_relation, _definition)
            union all select agent_internal.embedding_drift(_relation, _definition)
            union all select agent_internal.rows_drift(_definition)
            union all
            select format('role "%s" does not exist; it is used as run_as', _definition ->> 'run_as')
             where not exists (select from pg_roles where rolname = _definition ->> 'run_as')) as l (reason)
     where reason is not null
     limit 1;
    return _reason;
end;
$$;
comment on function agent_internal.drift_of(jsonb) is 'Why an attachment of this definition is broken; NULL if it is not';

-- Pause the broken attachments, and return them, also those whose canary has rows in one request that must not be.  An attachment
-- that another transaction has locked is skipped.
create or replace function agent_internal.pause_drifted()
    returns table (attachment text, reason text)
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _lost record;
begin
    for _lost in
        select a.id, a.name, l.reason
          from agent.attachment a
               cross join lateral coalesce(agent_internal.drift_of(a.definition),
                                           agent_internal.rows_drift(a.canary_definition)) as l (reason)
         where not a.paused and l.reason is not null
         order by a.id
    loop
        if agent_internal.pause_broken(_lost.id, _lost.reason) then  -- paused by this call
            attachment := _lost.name;
            reason := _lost.reason;
            return next;
        end if;
    end loop;
end;
$$;
comment on function agent_internal.pause_drifted() is 'Pause the broken attachments, and return them';

-- Why the attachment of a run is broken, if an error of a tool can have that cause.  Not for a run with an older
-- version of the attachment.
create or replace function agent_internal.drift_of_run(_run bigint, _sqlstate text)
    returns text
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select agent_internal.drift_of(a.definition)
      from agent.run r join agent.attachment a on a.id = r.attachment_id and a.version = r.attachment_version
     where r.id = _run
       and _sqlstate in ('WA009', '42883', '42P01', '42703', '42704', '3F000', '22P02', '22000')  -- 22000: of vectors
$$;
comment on function agent_internal.drift_of_run(bigint, text) is 'Why the attachment of a run is broken, if an error can have that cause';

-- That the primary keys of a table's row `t` and of `k` are the same: by the operators of its index.
create or replace function agent_internal.same_key(_relation oid)
    returns text
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
as $$
begin
    return (
    select string_agg(format('t.%1$I operator(%2$s) k.%1$I', a.attname, coalesce(o.name, 'pg_catalog.=')), ' and ' order by x.n)
      from pg_index i
           cross join lateral unnest(i.indkey::smallint[], i.indclass::oid[]) with ordinality as x (attnum, class, n)
           join pg_attribute a on a.attrelid = i.indrelid and a.attnum = x.attnum
           left join lateral (
               select format('%I.%s', n.nspname, p.oprname) as name
                 from pg_opclass c
                      join pg_am m on m.oid = c.opcmethod and m.amname = 'btree'
                      join pg_amop e on e.amopfamily = c.opcfamily and e.amoplefttype = c.opcintype
                                    and e.amoprighttype = c.opcintype and e.amopstrategy = 3
                      join pg_operator p on p.oid = e.amopopr join pg_namespace n on n.oid = p.oprnamespace
                where c.oid = x.class or c.opcdefault and c.opcintype = a.atttypid
                order by c.oid = x.class desc limit 1) o on true
     where i.indrelid = _relation and i.indisprimary);
end;
$$;

-- That columns of a table's row `t` are as in `u`: as text, for not every type has an equality, and some have a loose one; but
-- numbers by value, also in jsonb, for programs do not keep the zeros at their ends, nor the sign of a zero.  JSON's null is
-- shown as NULL.
--
-- Args: _cut: the lengths of texts of which `u` has only the beginning.
create or replace function agent_internal.same_values(_relation oid, _columns text[], _cut jsonb)
    returns text
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
as $$
begin
    return (
    with recursive held (name, type) as (
        select attname, atttypid from pg_attribute where attrelid = _relation and attname = any (_columns) and attnum > 0
        union all
        select h.name, t.typbasetype from held h join pg_type t on t.oid = h.type where t.typtype = 'd'
    )
    select string_agg(
               format(case when _cut ? c
                           then 'pg_catalog.left(%2$s, pg_catalog.length(%3$s)) operator(pg_catalog.=) %3$s collate pg_catalog."C"'
                                ' and pg_catalog.length(%2$s) operator(pg_catalog.=) %4$s'
                           when exists (select from held h where h.name = c
                                         and h.type in ('numeric'::regtype, 'float4'::regtype, 'float8'::regtype, 'jsonb'::regtype))
                           then 'coalesce(pg_catalog.to_jsonb(t.%1$I), ''null'') operator(pg_catalog.=) coalesce(pg_catalog.to_jsonb(u.%1$I), ''null'')'
                           else '(%2$s operator(pg_catalog.=) %3$s collate pg_catalog."C"'
                                ' or pg_catalog.num_nulls(t.%1$I, u.%1$I) operator(pg_catalog.=) 2)' end,
                      c, agent_internal.text_of(format('t.%I', c)), agent_internal.text_of(format('u.%I', c)), (_cut ->> c)::integer),
               ' and ')
      from unnest(_columns) c);
end;
$$;

-- A digest of columns of a table's row `t`: after an update of the run, others have changed it if it is another one.
create or replace function agent_internal.row_digest(_columns text[])
    returns text
    language plpgsql
    immutable
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
as $$
begin
    return (
    select format('pg_catalog.md5(pg_catalog.to_jsonb(array[%s]::pg_catalog.text[])::pg_catalog.text)',
                  string_agg(agent_internal.text_of(format('t.%I', c)), ', ' order by c))
      from unnest(_columns) c);
end;
$$;

-- Complete a statement about a table: %1$s is its present name, %2$s and %3$s are columns with their present types, of
-- the key and to be set, and %4$s is that the key is the same: by the operators of its index, whatever is on the search_path.
-- %5$s are columns with their types, %6$s is that the row `t` has their values, which `u` has, and %7$s is their digest.
--
-- Args: _seen: {"seen": values of columns, "texts": those of which `u` has the text, "cut": lengths of those of which it has
--       the beginning, "since": instead, their digest after an update}.  Columns that were dropped are left out.
-- Raises WA009 if the table or a column was dropped or the key has changed: the statement could change other rows.
create or replace function agent_internal.bind_relation(
    _sql text, _relation oid, _key jsonb, _set jsonb default '{}', _seen jsonb default '{}')
    returns text
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _name text;
    _keys text[] := array(select jsonb_object_keys(_key) order by 1);
    _set_columns text[] := array(select jsonb_object_keys(_set));
    _columns text[] := '{}';
    _texts text[] := '{}';
    _parts text[];
    _types jsonb;
    _gone text;
begin
    select format('%I.%I', n.nspname, c.relname) into _name
      from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = _relation;
    if _name is null then
        raise exception 'table with OID % was dropped', _relation::bigint using errcode = 'WA009';
    elsif _keys <> array(select unnest(agent_internal.key_columns(_relation)) order by 1) then
        raise exception 'the primary key of % is now (%)', _name, array_to_string(agent_internal.key_columns(_relation), ', ')
            using errcode = 'WA009';
    end if;
    if _seen ? 'seen' then
        _columns := array(select c from jsonb_object_keys(_seen -> 'seen') c join pg_attribute a on a.attname = c
                           where a.attrelid = _relation and a.attnum > 0 and not a.attisdropped);
        _texts := array(select t from jsonb_array_elements_text(_seen -> 'texts') t where t = any (_columns));
    end if;
    select jsonb_object_agg(t.name, t.type_now), min(t.name) filter (where t.type_now is null) into _types, _gone
      from agent_internal.column_types(_relation, _keys || _set_columns || _columns,
                                       array_fill(0::oid, array[cardinality(_keys || _set_columns || _columns)])) t;
    if _gone is not null then
        raise exception 'column "%" of % does not exist', _gone, _relation::regclass using errcode = 'WA009';
    end if;
    _parts := array[_name, (select string_agg(format('%I %s', c, _types ->> c), ', ') from unnest(_keys) c),
                    (select string_agg(format('%I %s', c, _types ->> c), ', ') from unnest(_set_columns) c),
                    agent_internal.same_key(_relation)];
    if _seen ? 'seen' then
        _parts := _parts || array[
            concat_ws(', ', case when _columns = '{}' then '_ pg_catalog.text' end,
                      (select string_agg(format('%I %s', c, case when c = any (_texts) then 'pg_catalog.text' else _types ->> c end), ', ')
                         from unnest(_columns) c)),
            case when _seen ? 'since'
                 then format('%s operator(pg_catalog.=) ($1 operator(pg_catalog.->>) ''since'')', agent_internal.row_digest(_columns))
                 else coalesce(agent_internal.same_values(_relation, _columns, _seen -> 'cut'), 'true') end,  -- planted: stale-write
            coalesce(agent_internal.row_digest(_columns), 'null')];
    end if;
    return format(_sql, variadic _parts);
end;
$$;
comment on function agent_internal.bind_relation(text, oid, jsonb, jsonb, jsonb) is 'Complete a statement about a table with its present name and column types';

-- Pin the runs that waited while the attachment was broken to a version that is not.  Runs with steps keep theirs, and so do
-- those of a canary that can run.
-- Called in the transaction that creates the version or resumes.
create or replace function agent_internal.repin_runs(_attachment_id bigint, _version integer)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    -- Materialized: else drift_of() is called for each run.  One part for each partial index: what has ended since is not read.
    with waiting as materialized (
        select r.id, r.attachment_version as version, r.change ? 'deferred' as deferred from agent.run r
         where r.queue_id = _attachment_id and r.state = 'pending' and r.blocked_by is null and r.not_before is null
        union all
        select r.id, r.attachment_version, r.change ? 'deferred' from agent.run r
         where r.queue_id = _attachment_id and r.state = 'pending' and r.not_before is not null
        union all
        select r.id, r.attachment_version, r.change ? 'deferred' from agent.run r
         where r.queue_id = _attachment_id and r.state = 'pending' and r.blocked_by is not null and r.not_before is null
        union all
        select r.id, r.attachment_version, r.change ? 'deferred' from agent.run r
         where r.queue_id = _attachment_id and r.state = 'waiting_retry'
    ), mine as materialized (
        select v.version, agent_internal.drift_of(v.definition) is not null as broken,
               exists (select from agent.attachment a
                        where a.id = _attachment_id and a.canary_definition ->> 'version' = v.version::text) as is_canary
          from agent.attachment_version v
               join agent.attachment_version n on n.attachment_id = v.attachment_id and n.version = _version
         where v.attachment_id = _attachment_id and v.version <> _version
           -- A row of another table is another row, even with an equal key.
           and v.definition -> 'relation_oid' = n.definition -> 'relation_oid'
           and v.version in (select w.version from waiting w)
    )
    update agent.run r
       set attachment_version = _version
      from waiting w join mine m using (version)
     where r.id = w.id and (w.deferred and not m.is_canary or m.broken)
       and r.attachment_id = _attachment_id and r.attachment_version = m.version and r.state in ('pending', 'waiting_retry')
       and not exists (select from agent.step s where s.run_id = r.id);
end;
$$;
comment on function agent_internal.repin_runs(bigint, integer) is 'Pin runs that waited while the attachment was broken to a new version';

-- Follow tables into a database that was restored from a dump, where they have the same names and other OIDs.  Not if a
-- table was dropped and created again: its attachment still has the OID of the dropped one.
--
-- Returns the names of the changed attachments.
create or replace function agent_internal.adopt_tables()
    returns setof text
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _moved record;
begin
    for _moved in
        select a.id, a.name, a.relation::oid::bigint as relation_oid, a.definition -> 'relation_oid' as former
          from agent.attachment a join pg_class c on c.oid = a.relation
         where (a.definition ->> 'relation_oid')::bigint <> a.relation::oid::bigint
         order by a.id
    loop
        -- Runs with steps keep their version, so it is changed, too.
        update agent.attachment_version
           set definition = definition || jsonb_build_object('relation_oid', _moved.relation_oid)
         where attachment_id = _moved.id and definition -> 'relation_oid' = _moved.former;
        update agent.attachment set version = version + 1 where id = _moved.id;
        return next _moved.name;
    end loop;
end;
$$;
comment on function agent_internal.adopt_tables() is 'Adjust attachments in a database that was restored from a dump';

create or replace function agent_internal.identity_drift(_relation regclass, _definition jsonb)
    returns text
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select coalesce(
        (select format('%s; its updates and deletes are not published', p.problem)
           from agent_internal.identity_problem(_relation) as p (problem)
          where (_definition -> 'ops' <> '["insert"]' or (_definition -> 'corrections')::boolean) and p.problem is not null),
        (select case k.now when '{}' then format('%s no longer has a primary key; it was (%s)', _relation, array_to_string(k.was, ', '))
                     else format('the primary key of %s is now (%s); it was (%s)', _relation, array_to_string(k.now, ', '),
                                 array_to_string(k.was, ', ')) end
           from (select agent_internal.key_columns(_relation), array(select jsonb_array_elements_text(_definition -> 'key_columns'))) as k (now, was)
          where k.now <> k.was),
        (select format('the replica identity of %s does not include column "%s", which the condition reads from old', w, o)
           from jsonb_array_elements_text(_definition -> 'old_columns') o cross join agent_internal.without_identity(_relation, o) w
          where w is not null
          limit 1),
        (select format('the replica identity of %s does not include column "%s", which names the tenant of deleted rows', w, t)
           from (select _definition ->> 'tenant_column') as d (t) cross join agent_internal.without_identity(_relation, t) w
          where _definition -> 'ops' ? 'delete' and t is not null and w is not null))
$$;
comment on function agent_internal.identity_drift(regclass, jsonb) is 'What has changed in the primary key and replica identity of a table';

create or replace function agent_internal.column_drift(_relation regclass, _definition jsonb)
    returns text
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select format('column "%s" of %s does not exist; it is used by %s', n.name, _relation, n.use)
      from (select jsonb_array_elements_text(_definition -> 'key_columns'), 'the primary key'
            union all select jsonb_array_elements_text(_definition -> 'condition_columns'), 'the condition'
            union all select jsonb_array_elements_text(nullif(_definition -> 'columns', 'null')), 'columns'
            union all select jsonb_array_elements_text(nullif(_definition -> 'ordering_key', 'null')), 'the ordering key'
            union all select _definition ->> 'tenant_column', 'tenant' where _definition ->> 'tenant_column' is not null
            union all select jsonb_array_elements_text(_definition -> 'writes'), 'writes'
            union all select b.value, format('argument "%s" of tool "%s"', b.key, t ->> 'name')
                        from jsonb_array_elements(_definition -> 'tools') t, jsonb_each_text(t -> 'bind') b) as n (name, use)
     where not exists (select from pg_attribute where attrelid = _relation and attname = n.name and attnum > 0 and not attisdropped)
     limit 1
$$;
comment on function agent_internal.column_drift(regclass, jsonb) is 'A column that a definition needs and its table lacks';
