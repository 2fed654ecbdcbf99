-- Find corrections in what the reader passes: changes, by others, of what agents wrote lately.

-- What tells a value from others; NULL is NULL.
create or replace function agent_internal.digest_of(_value text)
    returns bigint
    language sql
    immutable
    set search_path = pg_catalog, pg_temp
as $$ select hashtextextended(_value, 0) $$;

-- Whether two texts are one value to a type, for types of which a client can write one value in several ways.  No operator of
-- another type is called: it can be code of others.
create or replace function agent_internal.is_same_value(_type oid, _a text, _b text)
    returns boolean
    language plpgsql
    immutable
    set search_path = pg_catalog, pg_temp
as $$
begin
    return case _type when 'json'::regtype then _a::jsonb = _b::jsonb
                      when 'numeric'::regtype then _a::numeric = _b::numeric
                      else _a = _b collate "C" end;
exception when others then  -- a document can be too deep
    return false;
end;
$$;

-- A value as an argument of a tool has it, of its text.
create or replace function agent_internal.json_of(_type oid, _text text)
    returns jsonb
    language plpgsql
    immutable
    set search_path = pg_catalog, pg_temp
as $$
begin
    return case when _type in ('int2'::regtype, 'int4'::regtype, 'int8'::regtype, 'numeric'::regtype, 'float4'::regtype, 'float8'::regtype)
                then to_jsonb(_text::numeric)
                when _type = 'bool'::regtype then to_jsonb(_text::boolean)
                when _type in ('json'::regtype, 'jsonb'::regtype) then _text::jsonb
                else to_jsonb(_text) end;
exception when others then  -- the column has another type since
    return to_jsonb(_text);
end;
$$;

-- Take what transactions of runs wrote: those of *_changes* that committed at *_lsns*, whose rows are recorded.
--
-- Of update_row it is the columns that it may write, of the row that it names: what a trigger sets is not the agent's.  What
-- another tool or a trigger of a run has overwritten is not the agent's any more; what a revert took back, it corrected.
create or replace function agent_internal.take_writes(_changes jsonb, _lsns pg_lsn[])
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off
    set enable_hashjoin = off
    set enable_mergejoin = off
as $$
begin
    with changed as materialized (
        select c.*, r.kind, r.change ->> 'by' as asked_by
          from (select distinct (g ->> 'run')::bigint as run_id, (g ->> 'commit_lsn')::pg_lsn as commit_lsn
                  from jsonb_array_elements(_changes) g) d
               join agent.row_change c on c.run_id = d.run_id and c.commit_lsn = d.commit_lsn
               join agent.run r on r.id = c.run_id
         where d.commit_lsn = any (_lsns) and c.op in ('insert', 'update', 'delete') and c.key is not null
    ), overwritten as (
        select distinct on (w.relation, w.row_hash, w.column_name) w.*, c.run_id as by_run, c.kind as by_kind, c.asked_by, c.commit_lsn, c.ordinal,
               c.schema_name, c.table_name, c.xid, c.committed_at, c.after ->> w.column_name as value
          from changed c
               join agent_internal.last_write w on w.relation = c.relation and w.key = coalesce(c.old_key, c.key)
                                               and w.row_hash = md5(coalesce(c.old_key, c.key)::text)::uuid
         where c.op = 'delete' or c.old_key is not null
            or c.after ? w.column_name and agent_internal.digest_of(c.after ->> w.column_name) is distinct from w.digest
         order by w.relation, w.row_hash, w.column_name, c.commit_lsn desc, c.ordinal desc
    ), reverted as (
        insert into agent.correction (tenant, run_id, commit_lsn, ordinal, column_name, number, kind, relation, schema_name, table_name, key,
                                      wrote, value, by_run, corrected_by, xid, committed_at)
        select o.tenant, o.run_id, o.commit_lsn, o.ordinal, o.column_name, o.number, 'reverted', o.relation, o.schema_name, o.table_name, o.key,
               agent_internal.wrote(o.run_id, o.relation, o.column_name), o.value, o.by_run, o.asked_by::name, o.xid, o.committed_at
          from overwritten o where o.by_kind = 'revert'
        on conflict do nothing
    )
    delete from agent_internal.last_write w
     using overwritten o
     where (w.relation, w.row_hash, w.column_name) = (o.relation, o.row_hash, o.column_name);

    insert into agent_internal.last_write (tenant, relation, key, column_name, number, run_id, digest, written_at)
    select distinct on (c.relation, c.key, n.name)
           c.tenant, c.relation, c.key, n.name, (c.numbers ->> n.name)::smallint, c.run_id, agent_internal.digest_of(c.after ->> n.name), c.committed_at
      from (select distinct (g ->> 'run')::bigint as run_id, (g ->> 'commit_lsn')::pg_lsn as commit_lsn
              from jsonb_array_elements(_changes) g) d
           join agent.row_change c on c.run_id = d.run_id and c.commit_lsn = d.commit_lsn
           join agent.run r on r.id = c.run_id
           join agent.attachment_version v on v.attachment_id = r.attachment_id and v.version = r.attachment_version
           cross join lateral unnest(c.columns) as n (name)
     where d.commit_lsn = any (_lsns) and c.op = 'update' and c.source = 'statement' and c.key is not null
       and v.definition -> 'writes' ? n.name and c.after ? n.name and c.numbers ? n.name and r.kind = 'agent'
     order by c.relation, c.key, n.name, c.commit_lsn desc, c.ordinal desc
    on conflict on constraint last_write_pkey
        do update set tenant = excluded.tenant, number = excluded.number, run_id = excluded.run_id, digest = excluded.digest, written_at = excluded.written_at;
end;
$$;

-- The text that update_row of a run wrote to a column of its row; NULL: NULL.
create or replace function agent_internal.wrote(_run bigint, _relation oid, _column text)
    returns text
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select c.after ->> _column
      from agent.row_change c
     where c.run_id = _run and c.relation = _relation and c.source = 'statement' and _column = any (c.columns) and c.after ? _column
     order by c.commit_lsn desc, c.ordinal desc
     limit 1
$$;

-- Correct: take changes by transactions of no run, of rows that agents may have written.
--
-- What is there after a transaction counts: a value that it changed and changed back does not count.  More than a hundred of a column
-- in one transaction are one entry for each run: that is a migration rather than a person who knows better.
--
-- Args: _others: [{xid, commit_lsn, committed_at, by, relation, schema, table, rows: [{n, op, key, was, values, omitted}]}];
--         by: who signed the transaction;
--         was: the key before; omitted: columns with a value that is not recorded.
--       _is_part: whether they are a part of a large transaction.
create or replace function agent_internal.correct(_others jsonb, _is_part boolean)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off
    set enable_hashjoin = off
    set enable_mergejoin = off
as $$
declare
    _moved agent_internal.last_write[];
begin
    with given as materialized (
        select t.oid as relation, e.value ->> 'schema' as schema_name, e.value ->> 'table' as table_name, (e.value -> 'xid')::bigint as xid,
               (e.value ->> 'commit_lsn')::pg_lsn as commit_lsn, (e.value ->> 'committed_at')::timestamptz as committed_at,
               (e.value ->> 'by')::name as corrected_by, r.n, r.op, r.key, coalesce(r.was, r.key) as was, r.values, r.omitted
          from jsonb_array_elements(_others) e
               cross join lateral (select agent_internal.relation_in_wal((e.value -> 'relation')::bigint, e.value ->> 'schema', e.value ->> 'table')) t (oid)
               cross join lateral jsonb_to_recordset(e.value -> 'rows')
                   as r (n integer, op text, key jsonb, was jsonb, "values" jsonb, omitted jsonb)
    ), last as (
        select distinct on (g.relation, g.was, g.commit_lsn) g.* from given g order by g.relation, g.was, g.commit_lsn, g.n desc
    ), found as (
        select l.*, w.tenant, w.run_id, w.column_name, w.number, w.row_hash, a.atttypid, l.values ->> w.column_name as value
          from last l
               join agent_internal.last_write w on w.relation = l.relation and w.key = l.was and w.row_hash = md5(l.was::text)::uuid
               join pg_attribute a on a.attrelid = w.relation and a.attnum = w.number and a.attname = w.column_name and not a.attisdropped
         where l.op = 'delete' or l.omitted ? w.column_name
            or l.values ? w.column_name and agent_internal.digest_of(l.values ->> w.column_name) is distinct from w.digest
    ), first as (
        select distinct on (f.relation, f.row_hash, f.column_name) f.*
          from found f
         where f.op = 'delete' or f.omitted ? f.column_name
            or f.atttypid <> all (array['json', 'numeric']::regtype[]::oid[])  -- as is_same_value() has it
            or agent_internal.is_same_value(f.atttypid, agent_internal.wrote(f.run_id, f.relation, f.column_name), f.value) is not true
         order by f.relation, f.row_hash, f.column_name, f.commit_lsn
    ), begun as materialized (  -- large transactions of which the parts before were a migration
        select distinct b.commit_lsn
          from (select distinct f.committed_at, f.commit_lsn from first f where _is_part) f
               join agent.correction b on b.committed_at = f.committed_at and b.commit_lsn = f.commit_lsn and b.kind = 'bulk'
    ), corrected as materialized (
        select f.*, count(*) over (partition by f.commit_lsn, f.relation, f.column_name) > 100
                    or f.commit_lsn in (select b.commit_lsn from begun b) as is_bulk
          from first f
    ), gone as (
        delete from agent_internal.last_write w
         using corrected c
         where (w.relation, w.row_hash, w.column_name) = (c.relation, c.row_hash, c.column_name)
    ), one_by_one as (
        insert into agent.correction (tenant, run_id, commit_lsn, ordinal, column_name, number, kind, relation, schema_name, table_name, key,
                                      wrote, value, omitted, corrected_by, xid, committed_at)
        select c.tenant, c.run_id, c.commit_lsn, c.n, c.column_name, c.number, case c.op when 'delete' then 'deleted' else 'changed' end,
               c.relation, c.schema_name, c.table_name, c.was,
               case when k.known then agent_internal.wrote(c.run_id, c.relation, c.column_name) end, case when k.known then c.value end,
               not k.known, c.corrected_by, c.xid, c.committed_at
          from corrected c
               join agent.run r on r.id = c.run_id
               join agent.attachment_version v on v.attachment_id = r.attachment_id and v.version = r.attachment_version
               cross join lateral (
                   select not coalesce(c.omitted ? c.column_name, false)
                          and c.column_name = any (agent_internal.recorded_columns(v.definition, c.relation))
                          and not agent_internal.has_policies_for(c.relation, (v.definition ->> 'run_as')::name) as known
                   offset 0) k  -- evaluated once, though it is used three times
         where not c.is_bulk
        on conflict do nothing
    )
    insert into agent.correction (tenant, run_id, commit_lsn, ordinal, column_name, number, kind, relation, schema_name, table_name, rows, corrected_by,
                                  xid, committed_at)
    select c.tenant, c.run_id, c.commit_lsn, min(c.n), c.column_name, c.number, 'bulk', c.relation, c.schema_name, c.table_name, count(*), min(c.corrected_by::text)::name, c.xid,
           c.committed_at
      from corrected c where c.is_bulk
     group by c.tenant, c.run_id, c.commit_lsn, c.column_name, c.number, c.relation, c.schema_name, c.table_name, c.xid, c.committed_at
    on conflict do nothing;

    -- Rows that have another key now, with what they still have of agents.  In two statements: keys can be passed on.
    with moves as (
        select distinct on (t.oid, r.was) t.oid as relation, r.key, r.was
          from jsonb_array_elements(_others) e
               cross join lateral (select agent_internal.relation_in_wal((e.value -> 'relation')::bigint, e.value ->> 'schema', e.value ->> 'table')) t (oid)
               cross join lateral jsonb_to_recordset(e.value -> 'rows') as r (n integer, op text, key jsonb, was jsonb)
         where r.was is not null and r.op <> 'delete'
         order by t.oid, r.was, r.n desc
    ), taken as (
        delete from agent_internal.last_write w
         using moves m
         where w.relation = m.relation and w.key = m.was and w.row_hash = md5(m.was::text)::uuid
        returning w.*, m.key as new_key
    )
    select array_agg((t.relation, t.new_key, null, t.column_name, t.number, t.run_id, t.digest, t.written_at, t.tenant)::agent_internal.last_write)
      into _moved from taken t;
    insert into agent_internal.last_write (tenant, relation, key, column_name, number, run_id, digest, written_at)
    select m.tenant, m.relation, m.key, m.column_name, m.number, m.run_id, m.digest, m.written_at from unnest(_moved) m
    on conflict do nothing;
end;
$$;

-- The table that the WAL names; of a partition, its topmost table.  NULL: it is gone.
create or replace function agent_internal.relation_in_wal(_relation bigint, _schema text, _table text)
    returns oid
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select coalesce(pg_partition_root(c.oid::regclass)::oid, c.oid)
      from pg_class c
     where c.oid = case when _relation > 0 then _relation::oid
                        else (select k.oid from pg_class k join pg_namespace n on n.oid = k.relnamespace
                               where n.nspname = _schema and k.relname = _table) end
$$;

-- Take what the reader found, in the order of the commits: who corrected whom depends on it.  Called when the changes of runs
-- are recorded, in the same transaction.
--
-- Args: _found: see agent_internal.record_row_changes(); and "others", of agent_internal.correct(), "is_part".
create or replace function agent_internal.take_corrections(_found jsonb)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _slice record;
begin
    for _slice in
        with events as (
            select distinct case r.kind when 'revert' then 'revert' else 'run' end as kind, (g ->> 'commit_lsn')::pg_lsn as lsn,
                            0::bigint as n, null::jsonb as entry
              from jsonb_array_elements(_found -> 'changes') g join agent.run r on r.id = (g -> 'run')::bigint
            union all
            select case when jsonb_path_exists(o.value, '$.rows[*].was') then 'move' else 'other' end,
                   (o.value ->> 'commit_lsn')::pg_lsn, o.n, o.value
              from jsonb_array_elements(_found -> 'others') with ordinality as o (value, n)
        ), marked as (
            select e.*, e.kind in ('move', 'revert') or e.kind is distinct from lag(e.kind) over (order by e.lsn, e.n) as begins from events e
        ), numbered as (
            select m.*, count(*) filter (where m.begins) over (order by m.lsn, m.n) as slice from marked m
        )
        select n.kind, array_agg(n.lsn) as lsns, jsonb_agg(n.entry order by n.lsn, n.n) as entries
          from numbered n group by n.slice, n.kind order by n.slice
    loop
        if _slice.kind in ('run', 'revert') then
            perform agent_internal.take_writes(_found -> 'changes', _slice.lsns);
        else
            perform agent_internal.correct(_slice.entries, coalesce((_found -> 'is_part')::boolean, false));
        end if;
    end loop;
end;
$$;
comment on function agent_internal.take_corrections(jsonb) is 'Take what others made of what agents wrote';

-- Forget what agents wrote before an interval ago, so many columns of rows at most: a change of it is no correction any more.
--
-- What the reader has locked is passed over: neither waits for the other with locks of its own.
-- Returns how many.
create or replace function agent_internal.forget_writes(_within interval, _batch integer)
    returns bigint
    language sql
    set search_path = pg_catalog, pg_temp
as $$
    with old as materialized (
        select w.relation, w.row_hash, w.column_name
          from agent_internal.last_write w
         where w.written_at < agent_internal.now() - _within
         limit _batch
           for update skip locked
    ), forgotten as (
        delete from agent_internal.last_write w
         using old o
         where (w.relation, w.row_hash, w.column_name) = (o.relation, o.row_hash, o.column_name)
        returning 1
    )
    select count(*) from forgotten
$$;
comment on function agent_internal.forget_writes(interval, integer) is 'Forget what agents wrote before an interval ago, one batch';

-- Sign the changes of this transaction: a logical message with who acts, which the reader takes as corrected_by.  It is signed as
-- origin markers are, and bound to the transaction ID.
create or replace function agent_internal.emit_author()
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    -- In hexadecimal: a name can have any character.
    _what constant text := 'author ' || encode(convert_to(coalesce(agent.current_principal(), session_user), 'utf8'), 'hex');
begin
    perform pg_logical_emit_message(true, 'walagent', _what || ' ' || agent_internal.sign_write(_what, pg_current_xact_id()));
end;
$$;
comment on function agent_internal.emit_author() is 'Say in the WAL who acts in this transaction';

-- Sign the changes that this transaction makes with the principal or login that acts: what it changes of what agents wrote is
-- corrected by it.  Before the changes; nothing is said of those of a run.
create or replace function agent.sign_changes()
    returns void
    language sql
    security definer
    set search_path = pg_catalog, pg_temp
as $$ select agent_internal.emit_author() $$;
comment on function agent.sign_changes() is 'Sign the changes of this transaction with who acts, for corrected_by of corrections';

-- Say of an ended run how good it was; a second time, instead of the first.
--
-- Args: value: -1 (wrong), 0 (unsure) or 1 (right).
create or replace function agent.score(run_id bigint, value numeric, comment text default null)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _run agent.run;
    _who constant name := coalesce(agent.current_principal(), session_user);
begin
    perform agent_internal.check_role('approver');
    if length(score.comment) > 10000 then
        raise exception 'comment has % characters, expected 10000 at most', length(score.comment) using errcode = '22023';
    elsif score.value is null or score.value not in (-1, 0, 1) then
        raise exception 'value must be -1 (wrong), 0 (unsure) or 1 (right), not %', coalesce(score.value::text, 'NULL') using errcode = '22023';
    end if;
    select * into _run from agent.run r where r.id = score.run_id;
    if not found then
        raise exception 'run % does not exist', score.run_id using errcode = 'WA003';
    elsif not agent_internal.is_final(_run.state) then
        raise exception 'run % is %; only a run that has ended can be scored', _run.id, _run.state using errcode = 'WA003';
    end if;
    insert into agent.score as s (tenant, run_id, principal, value, comment)
    values (_run.tenant, _run.id, _who, score.value, score.comment)
    on conflict on constraint score_pkey
        do update set value = excluded.value, comment = excluded.comment, scored_at = excluded.scored_at;
    perform agent_internal.audit('run.scored', _run.id::text, jsonb_build_object('value', score.value), _run.tenant);
end;
$$;
comment on function agent.score(bigint, numeric, text) is 'Say of an ended run whether it was right: 1, wrong: -1, or unsure: 0';
