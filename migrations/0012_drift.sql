-- Drift: what happens if the table, key, roles or functions of an attachment change.
--
-- An attachment is defined once; the tables go on to change.  A broken attachment is paused, with the reason.
-- Changes that cannot be evaluated meanwhile are stored whole, each with a pending run.  Resuming checks the
-- attachment again, and each deferred change is then evaluated by the definition as of then.

create function agent_internal.drop_message(_definition jsonb)
    returns text
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select format('the table %s was dropped', t.name)
           || case when to_regclass(t.name) is not null then '; the one of that name now is another table' else '' end
      from format('%I.%I', _definition ->> 'schema', _definition ->> 'table') as t (name)
$$;
comment on function agent_internal.drop_message(jsonb) is 'Say that an attachment''s table is gone';

create function agent_internal.reattach_message(_attachment agent.attachment)
    returns text
    language sql
    stable
as $$
    select format('to go on with another table: update agent.attachment set relation = %L where name = %L; '
                  'then agent.resume(%L).  Or: select agent.detach(%L)',
                  format('%I.%I', (_attachment).definition ->> 'schema', (_attachment).definition ->> 'table'),
                  (_attachment).name, (_attachment).name, (_attachment).name)
$$;
comment on function agent_internal.reattach_message(agent.attachment) is 'Say what to do about an attachment whose table is gone';

create function agent_internal.column_drift(_relation regclass, _definition jsonb)
    returns text
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select format('%s has no column "%s" any more, which %s', _relation, n.name, n.use)
      from (select jsonb_array_elements_text(_definition -> 'key_columns'), 'was in its primary key'
            union all select jsonb_array_elements_text(_definition -> 'condition_columns'), 'the condition reads'
            union all select jsonb_array_elements_text(nullif(_definition -> 'columns', 'null')), 'is named in columns'
            union all select jsonb_array_elements_text(nullif(_definition -> 'ordering_key', 'null')), 'the ordering key is made of'
            union all select jsonb_array_elements_text(_definition -> 'writes'), 'is named in writes'
            union all select b.value, format('tool %s is given as "%s"', t ->> 'name', b.key)
                        from jsonb_array_elements(_definition -> 'tools') t, jsonb_each_text(t -> 'bind') b) as n (name, use)
     where not exists (select from pg_attribute where attrelid = _relation and attname = n.name and attnum > 0 and not attisdropped)
     limit 1
$$;
comment on function agent_internal.column_drift(regclass, jsonb) is 'A column that a definition needs and its table has no more';

create function agent_internal.identity_drift(_relation regclass, _definition jsonb)
    returns text
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select coalesce(
        (select case k.now when '{}' then format('%s has no primary key any more; it was (%s)', _relation, array_to_string(k.was, ', '))
                     else format('the primary key of %s is (%s) now, and was (%s)', _relation, array_to_string(k.now, ', '),
                                 array_to_string(k.was, ', ')) end
           from (select agent_internal.key_columns(_relation), array(select jsonb_array_elements_text(_definition -> 'key_columns'))) as k (now, was)
          where k.now <> k.was),
        (select format('%s has no replica identity any more: the application''s own UPDATE and DELETE fail', _relation)
          where _definition -> 'ops' <> '["insert"]' and agent_internal.identity_columns(_relation) = '{}'),
        (select format('the replica identity of %s does not carry the old "%s" any more, which the condition reads', _relation, o)
           from jsonb_array_elements_text(_definition -> 'old_columns') o
          where o <> all (agent_internal.identity_columns(_relation))
          limit 1))
$$;
comment on function agent_internal.identity_drift(regclass, jsonb) is 'What changed about a table''s key and replica identity';

-- Whether changes still reach us under the name of the relation that was attached to.  What has become
-- of the publications is looked at when the stream opens: that silences a table for all its agents.
create function agent_internal.stream_drift(_relation regclass, _definition jsonb)
    returns text
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select coalesce(
        (select format('%s is a partition of %s now, and the changes of partitions are told as their parent''s', _relation, p.relid)
           from pg_partition_ancestors(_relation) p
          where p.relid <> _relation
            and exists (select from pg_publication_rel r join pg_publication b on b.oid = r.prpubid
                         where r.prrelid = p.relid and b.pubname in ('walagent', 'walagent_inserts'))
          limit 1),
        -- wal2json is told the names of tables when the stream opens.
        (select case when c.relkind = 'p' then format('wal2json tells the changes of partitions under their own names, not as those of %s', _relation)
                     else format('%s.%s is called %s now, and wal2json has sent no change of it since', _definition ->> 'schema',
                                 _definition ->> 'table', _relation) end
           from pg_class c join pg_namespace n on n.oid = c.relnamespace
          where c.oid = _relation and exists (select from agent.checkpoint where plugin = 'wal2json')
            and (c.relkind = 'p' or (n.nspname, c.relname) is distinct from (_definition ->> 'schema', _definition ->> 'table'))))
$$;
comment on function agent_internal.stream_drift(regclass, jsonb) is 'Why a table''s changes do not arrive any more as those of the relation that was attached to';

create function agent_internal.tool_drift(_relation regclass, _definition jsonb)
    returns text
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    with called (tool, function) as materialized (
        -- Before version 16, to_regprocedure() raises on what is no function at all: asked of the others never.
        select t, case when t ->> 'kind' = 'sql' then to_regprocedure(t ->> 'target') end
          from jsonb_array_elements(_definition -> 'tools') t
    )
    select coalesce(
        (select format('the function %s is gone, which tool %s calls', tool ->> 'target', tool ->> 'name')
           from called where tool ->> 'kind' = 'sql' and function is null
          limit 1),
        (select format('the arguments of %s have other names now, and tool %s calls it by them', tool ->> 'target', tool ->> 'name')
           from called
          where agent_internal.argument_names(function) <> array(select a ->> 'name' from jsonb_array_elements(tool -> 'arguments') a)
          limit 1),
        (select format('"%s" is no value of %s.%s any more, and tool %s offers it', v.label, _relation, p.key, t ->> 'name')
           from jsonb_array_elements(_definition -> 'tools') t,
                jsonb_each(t -> 'input_schema' -> 'properties') p,
                jsonb_array_elements_text(p.value -> 'enum') v (label)
          where t ->> 'target' = 'update_row' and t ->> 'kind' = 'builtin'
            and not coalesce(agent_internal.column_schema(_relation, p.key) -> 'enum' ? v.label, true)
          limit 1))
$$;
comment on function agent_internal.tool_drift(regclass, jsonb) is 'A tool that cannot be carried out any more as it was defined';

-- Why an attachment cannot go on as it was defined; NULL when it can.
--
-- Whether its condition still compiles is not asked here: the reader sees that at the first change,
-- and resuming compiles it anew.
create function agent_internal.drift_of(_definition jsonb)
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
            union all
            select format('role "%s" is gone, which it runs as', _definition ->> 'run_as')
             where not exists (select from pg_roles where rolname = _definition ->> 'run_as')) as l (reason)
     where reason is not null
     limit 1;
    return _reason;
end;
$$;
comment on function agent_internal.drift_of(jsonb) is 'Why an attachment of this definition cannot go on; NULL when it can';

-- Pause every attachment that has lost its ground, and tell which.  An attachment that a person has
-- locked is left for the next time.
create function agent_internal.pause_drifted()
    returns table (attachment text, reason text)
    language plpgsql
as $$
declare
    _lost record;
begin
    for _lost in
        select a.id, a.name, l.reason
          from agent.attachment a cross join lateral agent_internal.drift_of(a.definition) as l (reason)
         where not a.paused and l.reason is not null
         order by a.id
    loop
        if agent_internal.pause_broken(_lost.id, _lost.reason) then  -- we saw it go on: the pause is ours
            attachment := _lost.name;
            reason := _lost.reason;
            return next;
        end if;
    end loop;
end;
$$;
comment on function agent_internal.pause_drifted() is 'Pause the attachments that have lost their ground';

-- Whether a tool's error is no answer of the tool: it is called as the attachment was defined, and
-- that does not hold any more.  Of a run with an older version that is nobody's news.
create function agent_internal.drift_of_run(_run bigint, _sqlstate text)
    returns text
    language sql
    stable
as $$
    select agent_internal.drift_of(a.definition)
      from agent.run r join agent.attachment a on a.id = r.attachment_id and a.version = r.attachment_version
     where r.id = _run
       and _sqlstate in ('WA009', '42883', '42P01', '42703', '42704', '3F000', '22P02')
$$;
comment on function agent_internal.drift_of_run(bigint, text) is 'Why the attachment of a run cannot go on, where an error may have that reason';

-- What the columns of a change are to be read as: for each its type then, the type and collation that
-- it has now (NULL where it is gone), and what the table is called now.  Of a domain the type below
-- it: values that were stored before its check was made are values all the same.
--
-- Args: _types: as the WAL told them; 0 where it did not.
create function agent_internal.column_types(_relation oid, _names text[], _types oid[])
    returns table (name text, type_then text, type_now text)
    language sql
    stable
    set search_path = ''
as $$
    with recursive wanted (n, name, type, now, attcollation) as (
        select w.n, w.name, coalesce(nullif(w.type, 0), a.atttypid), a.atttypid, a.attcollation
          from unnest(_names, _types) with ordinality as w (name, type, n)
               left join pg_catalog.pg_attribute a
                      on a.attrelid = _relation and a.attname = w.name and a.attnum > 0 and not a.attisdropped
    ), based (n, is_now, type) as (
        select n, false, type from wanted
        union all
        select n, true, now from wanted
        union all
        select b.n, b.is_now, t.typbasetype from based b join pg_catalog.pg_type t on t.oid = b.type where t.typtype = 'd'
    ), base (n, is_now, text) as (
        -- Without its modifier: a value that has it already is neither cut nor padded by reading it.
        select b.n, b.is_now,
               pg_catalog.format_type(t.oid, -1)
               || case when t.typcollation <> 0 and w.attcollation <> 0 and w.attcollation <> t.typcollation
                       then (select format(' collate %I.%I', s.nspname, c.collname)
                               from pg_catalog.pg_collation c join pg_catalog.pg_namespace s on s.oid = c.collnamespace
                              where c.oid = w.attcollation)
                       else '' end
          from based b
               join pg_catalog.pg_type t on t.oid = b.type and t.typtype <> 'd'
               join wanted w on w.n = b.n
    )
    select w.name,
           coalesce((select b.text from base b where b.n = w.n and not b.is_now), case when w.type is not null then 'text' end),
           (select b.text from base b where b.n = w.n and b.is_now)
      from wanted w
     order by w.n
$$;
comment on function agent_internal.column_types(oid, text[], oid[]) is 'The types that a change''s columns are read as when a condition is evaluated';

create function agent_internal.typed_columns(_relation oid, _names text[])
    returns text
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _gone text;
begin
    select name into _gone from agent_internal.column_types(_relation, _names, array_fill(0::oid, array[cardinality(_names)]))
     where type_now is null limit 1;
    if found then
        raise exception 'column "%" is gone', _gone using errcode = 'WA009';
    end if;
    return (select string_agg(format('%I %s', name, type_now), ', ')
              from agent_internal.column_types(_relation, _names, array_fill(0::oid, array[cardinality(_names)])));
end;
$$;
comment on function agent_internal.typed_columns(oid, text[]) is 'Columns with their types, as a record''s definition';

-- Write a statement about a table: %1$s is what the table is called now, %2$s and %3$s are columns with
-- their types now, of the key and of what is to be set.
--
-- Raises WA009 when the table or a column is gone, or the key is none any more: such a statement could
-- change other rows.
create function agent_internal.bind_relation(_sql text, _relation oid, _key jsonb, _set jsonb default '{}')
    returns text
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _name text;
    _keys text[] := array(select jsonb_object_keys(_key) order by 1);
begin
    select format('%I.%I', n.nspname, c.relname) into _name
      from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = _relation;
    if _name is null then
        raise exception 'the table was dropped' using errcode = 'WA009';
    elsif _keys <> array(select unnest(agent_internal.key_columns(_relation)) order by 1) then
        raise exception 'the primary key of % is (%) now', _name, array_to_string(agent_internal.key_columns(_relation), ', ')
            using errcode = 'WA009';
    end if;
    return format(_sql, _name, agent_internal.typed_columns(_relation, _keys),
                  agent_internal.typed_columns(_relation, array(select jsonb_object_keys(_set))));
end;
$$;
comment on function agent_internal.bind_relation(text, oid, jsonb, jsonb) is 'Write a statement about a table by what it and its columns are called now';

-- An attachment goes on with a version for which the ground is there: what waited without ground is
-- its now.  Runs that have begun keep theirs.  In the transaction that makes the version or resumes.
create function agent_internal.repin_runs(_attachment_id bigint, _version integer)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    with mine as (
        select v.version, agent_internal.drift_of(v.definition) is not null as lost
          from agent.attachment_version v
               join agent.attachment_version n on n.attachment_id = v.attachment_id and n.version = _version
         where v.attachment_id = _attachment_id and v.version <> _version
           -- A row of another table is another row, whatever its key.
           and v.definition -> 'relation_oid' = n.definition -> 'relation_oid'
           and exists (select from agent.run r
                        where r.attachment_id = _attachment_id and r.attachment_version = v.version
                          and r.state in ('pending', 'waiting_retry'))
    )
    update agent.run r
       set attachment_version = _version
      from mine m
     where r.attachment_id = _attachment_id and r.attachment_version = m.version
       and r.state in ('pending', 'waiting_retry')
       and (r.change ? 'deferred' or m.lost)
       and not exists (select from agent.step s where s.run_id = r.id);
end;
$$;
comment on function agent_internal.repin_runs(bigint, integer) is 'Give runs that waited without ground the version that goes on';

-- Follow tables into a database that was restored from a dump: there they have the same names and
-- other numbers.  A table that was dropped and made again is no such case: its attachment still has
-- the number of the one that is gone.
--
-- Returns the attachments that go on.
create function agent_internal.adopt_tables()
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
        -- Runs that were begun stay with their version, so that has to know the table, too.
        update agent.attachment_version
           set definition = definition || jsonb_build_object('relation_oid', _moved.relation_oid)
         where attachment_id = _moved.id and definition -> 'relation_oid' = _moved.former;
        update agent.attachment set version = version + 1 where id = _moved.id;
        return next _moved.name;
    end loop;
end;
$$;
comment on function agent_internal.adopt_tables() is 'Let attachments go on in a database that was restored from a dump';
