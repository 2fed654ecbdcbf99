-- Columns that hold embeddings of others of their row.

-- The dimensions that a column can hold: 0: any number; NULL: it is no column of vectors.
create or replace function agent_internal.vector_dimensions(_relation regclass, _column text)
    returns integer
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select case when a.atttypid in ('real[]'::regtype, 'double precision[]'::regtype) then 0
                when t.typname in ('vector', 'halfvec') and exists (
                    select from pg_depend d join pg_extension e on e.oid = d.refobjid
                     where d.classid = 'pg_type'::regclass and d.objid = t.oid and d.refclassid = 'pg_extension'::regclass
                       and d.deptype = 'e' and e.extname = 'vector')
                then greatest(a.atttypmod, 0) end
      from pg_attribute a join pg_type t on t.oid = a.atttypid
     where a.attrelid = _relation and a.attname = _column and a.attnum > 0 and not a.attisdropped
$$;

create or replace function agent_internal.is_not_null(_relation regclass, _column text)
    returns boolean
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select coalesce((select attnotnull from pg_attribute where attrelid = _relation and attname = _column and not attisdropped), false)
$$;

-- Check the table of an attachment with `embeds`.
create or replace function agent_internal.check_embedding(_attachment agent.attachment)
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _target constant regclass := (_attachment).relation;
    _writes constant text := (_attachment).writes[1];
    _absent text;
begin
    if coalesce(cardinality((_attachment).writes), 0) <> 1 or coalesce((_attachment).columns, '{}') = '{}' then
        raise exception 'embeds requires columns, and one column in writes'
            using errcode = 'WA013', hint = 'The embedding of columns is written into that of writes.';
    elsif not (_attachment).ops <@ '{insert,update}' then
        raise exception 'embeds: a row is embedded when it is inserted or updated' using errcode = 'WA013', hint = 'Use on=[insert, update].';
    elsif not (_attachment).only_unchanged then
        raise exception 'embeds requires only_unchanged: an embedding of former values must not be written' using errcode = 'WA013';
    end if;
    perform agent_internal.check_kept(_target, (_attachment).columns, (_attachment).writes);
    if agent_internal.vector_dimensions(_target, _writes) is null then
        raise exception 'writes: column "%" of % is of type %, which holds no embedding', _writes, _target,
            (select format_type(atttypid, atttypmod) from pg_attribute where attrelid = _target and attname = _writes and not attisdropped)
            using errcode = 'WA013', hint = 'Use the type vector or halfvec of the extension "vector", or real[].';
    end if;
    if agent_internal.is_not_null(_target, _writes) then
        raise exception 'writes: column "%" of % is NOT NULL, and a row without a text has no embedding', _writes, _target
            using errcode = 'WA013', hint = format('alter table %s alter column %I drop not null', _target, _writes);
    end if;
    -- An UPDATE that leaves a long value as it is does not have it in the WAL, except in the old row.
    _absent := (select c from unnest((_attachment).columns) c where c <> all (agent_internal.identity_columns(_target)) limit 1);
    if _absent is not null and 'update' = any ((_attachment).ops) then
        raise exception 'columns: the WAL does not have the old value of column "%" of %: its replica identity does not include it',
            _absent, agent_internal.without_identity(_target, _absent)
            using errcode = 'WA013', hint = format('alter table %s replica identity full', agent_internal.without_identity(_target, _absent));
    end if;
end;
$$;

-- Check the agent of an attachment with `embeds`: its model, and what has no meaning for embeddings.
--
-- Args: _tools: the names of its tools, with update_row.
create or replace function agent_internal.check_embedder(_agent agent.agent, _attachment agent.attachment, _tools text[])
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _model constant agent.model := agent_internal.model_of((_agent).tenant, (_agent).model);
    _room  constant integer := agent_internal.vector_dimensions((_attachment).relation, (_attachment).writes[1]);
begin
    if _model.dimensions is null then
        raise exception 'model "%" makes no embeddings', _model.name
            using errcode = 'WA014',
                  hint = coalesce('Use ' || (select string_agg(distinct format('"%s"', m.name), ' or ') from agent.model m
                                              where m.dimensions is not null and m.enabled and m.scope in ('', (_agent).tenant))
                                  || ', or set dimensions', 'Set dimensions') || ' of a model of embeddings in agent.model.';
    elsif _room > 0 and _room <> _model.dimensions then
        raise exception 'writes: column "%" of % has % dimensions, and embeddings of model "%" have %',
            (_attachment).writes[1], (_attachment).relation, _room, _model.name, _model.dimensions
            using errcode = 'WA013', hint = format('Use a column of type vector(%s), or another model.', _model.dimensions);
    elsif _tools <> '{update_row}' then
        raise exception 'embeds: agent "%" has tools, and an embedding calls none', (_agent).name
            using errcode = 'WA011', hint = 'Use an agent without tools.';
    elsif (_agent).fallback is not null then
        raise exception 'embeds: embeddings of model "%" cannot be compared with those of its fallback "%"', _model.name, (_agent).fallback
            using errcode = 'WA014', hint = 'Use an agent without fallback.';
    elsif (_agent).rows_per_request is not null or (_agent).cascade <> '{}' then
        raise exception 'embeds: agent "%" has %, and the embedding of a row is made of it alone, by one model', (_agent).name,
            case when (_agent).cascade <> '{}' then 'cascade' else 'rows_per_request' end using errcode = 'WA014', hint = 'Use an agent without it.';
    elsif (_agent).tier <> 'standard' then
        raise exception 'tier: embeddings are asked for in the tier standard only, not "%"', (_agent).tier using errcode = 'WA014';
    end if;
end;
$$;

-- Raises WA013 if an attachment would write embeddings of another model beside those that are there.
create or replace function agent_internal.check_same_embeddings(_name text, _old jsonb, _new jsonb)
    returns void
    language plpgsql
    immutable
    set search_path = pg_catalog, pg_temp
as $$
begin
    if _old ->> 'model' <> _new ->> 'model' and _old -> 'writes' = _new -> 'writes' and _old -> 'relation_oid' = _new -> 'relation_oid' then
        raise exception 'attachment "%": embeddings of model "%" cannot be compared with those of "%", which column "%" has',
            _name, _new ->> 'model', _old ->> 'model', _old -> 'writes' ->> 0
            using errcode = 'WA013', hint = format('To embed all rows again: select agent.detach(%L), and agent.embed() with the other model.', _name);
    end if;
end;
$$;

-- Raises WA013 if another attachment, of any tenant, writes embeddings of another model into the column.
create or replace function agent_internal.check_only_embedder(_attachment agent.attachment)
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _other agent.attachment;
begin
    select a.* into _other from agent.attachment a
     where a.embeds and a.id <> (_attachment).id and a.relation = (_attachment).relation and a.writes = (_attachment).writes
       and a.definition ->> 'model' <> (_attachment).definition ->> 'model'
     order by a.id limit 1;
    if found then
        raise exception 'attachment "%": embeddings of model "%" cannot be compared with those of "%", which attachment "%" writes into column "%"',
            (_attachment).name, (_attachment).definition ->> 'model', _other.definition ->> 'model', _other.name, _other.writes[1]
            using errcode = 'WA013', hint = 'Use the same model, or another column.';
    end if;
end;
$$;

-- Why embeddings can no longer be written, or would be made of a part of the row; NULL: they can.
create or replace function agent_internal.embedding_drift(_relation regclass, _definition jsonb)
    returns text
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select coalesce(
        (select case when d.room is null then format('column "%s" of %s no longer holds embeddings', w, _relation)
                     when d.room = 0 or d.room = (_definition ->> 'dimensions')::integer
                         then format('column "%s" of %s is NOT NULL, and a row without a text has no embedding', w, _relation)
                     else format('column "%s" of %s now has %s dimensions, and embeddings have %s', w, _relation, d.room, _definition ->> 'dimensions') end
           from (select _definition -> 'writes' ->> 0) as x (w), agent_internal.vector_dimensions(_relation, w) as d (room)
          where d.room is null or d.room > 0 and d.room <> (_definition ->> 'dimensions')::integer
             or agent_internal.is_not_null(_relation, w)),
        (select format('the replica identity of %s does not include column "%s", which is embedded', w, c)
           from jsonb_array_elements_text(_definition -> 'columns') c cross join agent_internal.without_identity(_relation, c) w
          where w is not null and _definition -> 'ops' ? 'update'
          limit 1))
     where (_definition -> 'embeds')::boolean
$$;
comment on function agent_internal.embedding_drift(regclass, jsonb) is 'What has changed in the column of embeddings and the columns that they are made of';

-- The spec with which agent_internal.attach() attaches an agent that embeds.
--
-- Args: as of agent.embed(); _given: other keys of the spec.
create or replace function agent_internal.embedding_spec(_target regclass, _columns text[], _writes text, _given jsonb)
    returns jsonb
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _state   text;
    _message text;
    _detail  text;
    _hint    text;
begin
    perform agent_internal.check_kept(_target, _columns, array_remove(array[_writes], null));
    perform agent_internal.check_columns(_target, array[_writes], 'writes');
    return _given || jsonb_build_object(
        'name', coalesce(_given ->> 'name', (select relname from pg_class where oid = _target) || '_' || _writes),
        'on', '["insert", "update"]'::jsonb, 'columns', _columns, 'writes', array[_writes], 'embeds', true,
        'tool_choice', 'update_row', 'finish', 'after_call', 'only_unchanged', true);
exception when others then
    get stacked diagnostics _state = returned_sqlstate, _message = message_text,
                            _detail = pg_exception_detail, _hint = pg_exception_hint;
    _state := agent_internal.raise_again(_state, _message, _detail, _hint);
end;
$$;

-- Keep the embedding of columns of a row in another of its columns: attach an agent that writes it when a row is inserted,
-- or one of `columns` changes.  An embedding of values that have changed meanwhile is not written.
--
-- Args: columns: that are embedded, each on lines of its own; writes: the column of the embedding, of type vector, halfvec or
-- real[]; model: one with dimensions.  backfill: also the rows that exist.  The others are as of agent.attach().
create or replace function agent.embed(
    target regclass,
    columns text[],
    writes text,
    model text,
    name text default null,
    parameters jsonb default '{}',
    max_cost numeric default null,
    requests_per_minute integer default null,
    reuse interval default null,
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
    select agent_internal.attach(target, agent_internal.embedding_spec(target, columns, writes, jsonb_build_object(
        'model', model, 'name', name, 'parameters', parameters, 'max_cost', max_cost,
        'requests_per_minute', requests_per_minute, 'reuse', reuse, 'when', condition, 'run_as', run_as,
        'debounce', debounce, 'cap', cap, 'tenant', tenant, 'backfill', backfill, 'priority', priority,
        'paused', paused, 'replace', replace)),
        agent_internal.schemas_of_caller());
end;
comment on function agent.embed(regclass, text[], text, text, text, jsonb, numeric, integer, interval, text, name, interval, integer, text, boolean, integer, boolean, boolean) is 'Keep the embedding of columns of a row in another of its columns';
