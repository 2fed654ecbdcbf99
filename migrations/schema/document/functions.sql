create or replace function agent_internal.embedding_setting_of(_tenant text)
    returns agent.embedding_setting
    language plpgsql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _setting agent.embedding_setting;
begin
    select * into _setting from agent.embedding_setting s where s.tenant = _tenant;
    if not found then
        _setting := row (_tenant, true, 1000, 2000, 200);
    end if;
    return _setting;
end;
$$;

-- Queue runs for documents of a tenant whose chunks are missing or outdated, the oldest first, up to the tenant's limit.
-- Returns how many were queued.
create or replace function agent_internal.queue_documents(_tenant text)
    returns integer
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _queue constant bigint := agent_internal.queue_of('embedding', 'documents', _tenant);
    _most  constant integer := (agent_internal.embedding_setting_of(_tenant)).max_queue;
    _used  integer;
    _room  integer;
    _count integer;
begin
    _used := (select count(*) from (select from agent.run r
                                     where r.queue_id = _queue and not agent_internal.is_final(r.state) limit _most) u);
    -- Each run queues the next documents when it ends, so two continue while all queues of the tenant are full.
    _room := agent_internal.queue_room_of(_tenant);
    _room := least(_most - _used, case when _room is not null then greatest(_room, 2 - _used) end);
    with due as (
        select d.id from agent.document d
         where d.tenant = _tenant and d.queued_version is distinct from d.version
         order by d.created_at, d.id limit greatest(_room, 0)
           for no key update skip locked
    ), marked as (
        update agent.document d set queued_version = d.version from due where d.tenant = _tenant and d.id = due.id
        returning d.id
    )
    insert into agent.run (tenant, kind, reason, queue_id, change, key)
    select _tenant, 'embedding', 'manual', _queue,
           jsonb_build_object('op', 'insert', 'schema', 'agent', 'table', 'document',
                              'new', jsonb_build_object('tenant', _tenant, 'id', m.id)), m.id::text
      from marked m;
    get diagnostics _count = row_count;
    if _count > 0 then
        perform agent_internal.wake_workers();
    end if;
    return _count;
end;
$$;
comment on function agent_internal.queue_documents(text) is 'Queue the documents of a tenant that wait for it';

create or replace function agent_internal.check_document()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    if not agent.has_role('developer') then
        raise exception 'changing documents requires the role developer' using errcode = '42501';
    end if;
    if tg_op = 'INSERT' then
        new.version := 1;
        new.queued_version := null;
        new.indexed_version := null;
        new.created_by := coalesce(agent.current_principal(), session_user);
    elsif (new.title, new.body) is distinct from (old.title, old.body) then
        new.version := old.version + 1;
        new.updated_at := agent_internal.now();
    end if;
    return new;
end;
$$;

create or replace function agent_internal.enqueue_documents()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.queue_documents(t.tenant)
       from (select distinct c.tenant from changed c) t
      where (agent_internal.embedding_setting_of(t.tenant)).auto_enqueue;
    return null;
end;
$$;

-- Queue the documents of the caller's tenant that wait.  again: all, to embed them with another model.
create or replace function agent.embed_documents(again boolean default false)
    returns integer
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    if not agent.has_role('developer') then
        raise exception 'embedding documents requires the role developer' using errcode = '42501';
    end if;
    if again then
        update agent.document d set queued_version = null, indexed_version = null where d.tenant = agent.current_tenant();
    end if;
    perform agent_internal.queue_documents(agent.current_tenant());
    return (select count(*) from agent.document d
             where d.tenant = agent.current_tenant() and d.queued_version = d.version and d.indexed_version is distinct from d.version);
end;
$$;
comment on function agent.embed_documents(boolean) is 'Queue documents that wait to be cut and embedded; returns how many are queued now';

-- Cut a text into chunks of at most _size characters, each ending at a paragraph, sentence or word where there is one, and
-- beginning _overlap characters before the end of the one before.
create or replace function agent_internal.chunks_of(_text text, _size integer, _overlap integer)
    returns table (number integer, content text)
    language plpgsql
    immutable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _rest text := btrim(_text, E' \n\r\t');
    _part text;
    _end  integer;
    _next integer;
begin
    number := 0;
    while _rest <> '' loop
        _part := left(_rest, _size);
        _end := length(_part);
        if length(_rest) > _size then
            -- The last paragraph, sentence or word that ends in the second half.
            _end := coalesce(
                nullif(length(substring(_part from E'^(.*\n)\\s*\n')), 0),
                nullif(length(substring(_part from '^(.*[.!?])\s')), 0),
                nullif(length(substring(_part from '^(.*)\s')), 0), _end);
            if _end < _size / 2 then
                _end := coalesce(nullif(length(substring(_part from '^(.*)\s')), 0), length(_part));
            end if;
            if _end < _size / 2 then
                _end := length(_part);
            end if;
        end if;
        number := number + 1;
        content := btrim(left(_part, _end), E' \n\r\t');
        if content <> '' then
            return next;
        else
            number := number - 1;
        end if;
        exit when _end >= length(_rest);
        _next := greatest(_end - _overlap, 1);
        -- Begin at a word, if there is one in the overlap.
        _next := least(_end, _next + coalesce(length(substring(substr(_part, _next + 1, _end - _next) from '^\S*\s')), 0));
        _rest := ltrim(substr(_rest, _next + 1), E' \n\r\t');
    end loop;
end;
$$;
comment on function agent_internal.chunks_of(text, integer, integer) is 'Chunks of a text';

-- Cut a document into chunks, in the place of those it had.  Returns {"version", "chunks"}; NULL: there is no such document.
create or replace function agent_internal.cut_document(_tenant text, _id uuid)
    returns jsonb
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _document agent.document;
    _setting  constant agent.embedding_setting := agent_internal.embedding_setting_of(_tenant);
    _count    integer;
begin
    select * into _document from agent.document d where d.tenant = _tenant and d.id = _id for no key update;
    if not found then
        return null;
    end if;
    delete from agent.document_chunk c where c.tenant = _tenant and c.document_id = _id;
    insert into agent.document_chunk (tenant, document_id, number, version, content, search)
    select _tenant, _id, c.number, _document.version, c.content,
           setweight(to_tsvector('english', _document.title), 'A') || setweight(to_tsvector('english', c.content), 'B')
      from agent_internal.chunks_of(_document.body, _setting.chunk_chars, _setting.overlap_chars) c;
    get diagnostics _count = row_count;
    update agent.document d set indexed_version = d.version, queued_version = d.version where d.tenant = _tenant and d.id = _id;
    return jsonb_build_object('version', _document.version, 'chunks', _count);
end;
$$;
comment on function agent_internal.cut_document(text, uuid) is 'Cut a document into chunks';

-- The texts to embed of the next chunks of a version.
create or replace function agent_internal.chunks_to_embed(_tenant text, _id uuid, _version integer, _after integer, _most integer)
    returns table (number integer, content text)
    language sql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
    select c.number, d.title || E'\n' || c.content
      from agent.document_chunk c join agent.document d on d.tenant = c.tenant and d.id = c.document_id
     where c.tenant = _tenant and c.document_id = _id and c.version = _version and c.number > _after
     order by c.number limit _most
$$;

-- Store embeddings of chunks: {"number", "embedding"} each.  Those of another version are left out.
create or replace function agent_internal.store_embeddings(_tenant text, _id uuid, _version integer, _model text, _embeddings jsonb)
    returns integer
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _count integer;
begin
    update agent.document_chunk c
       set embedding_model = _model,
           embedding = (select array_agg(v::real order by n) from jsonb_array_elements_text(e.embedding) with ordinality as x (v, n))
      from jsonb_to_recordset(_embeddings) as e (number integer, embedding jsonb)
     where c.tenant = _tenant and c.document_id = _id and c.version = _version and c.number = e.number;
    get diagnostics _count = row_count;
    return _count;
end;
$$;

-- Create the index for embeddings of so many dimensions, with the extension `vector` of 0.5 or newer.
create or replace function agent.create_vector_index(dimensions integer)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _schema constant text := agent_internal.schema_of_extension('vector');
begin
    if _schema is null or not exists (select from pg_catalog.pg_am where amname = 'hnsw') then
        raise exception 'the extension "vector" with HNSW indexes is not installed'
            using errcode = 'WA024', hint = 'create extension vector, as a superuser or the owner of walagent and in a schema of theirs';
    elsif dimensions not between 1 and 2000 then
        raise exception 'an index can have 1 to 2000 dimensions, not %', dimensions using errcode = 'WA024';
    end if;
    execute format('create index if not exists document_chunk_vector_%1$s on agent.document_chunk '
                   'using hnsw ((embedding::%2$s.vector(%1$s)) %2$s.vector_cosine_ops) where cardinality(embedding) = %1$s', dimensions, _schema);
end;
$$;
comment on function agent.create_vector_index(integer) is 'Create the HNSW index for embeddings of a number of dimensions; only the owner can';

-- Documents by their words, best first.
create or replace function agent.search_documents(query text, k integer default 10, metadata jsonb default '{}')
    returns table (id uuid, title text, source text, excerpt text, score double precision, updated_at timestamptz)
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select f.id, f.title, f.source,
           ts_headline('english', left(f.body, 20000), f.q, 'StartSel="", StopSel="", MaxFragments=2, MaxWords=30, MinWords=10'),
           f.rank / (f.rank + 0.1), f.updated_at
      from (select d.*, q, ts_rank(d.search, q)::double precision as rank
              from agent.document d, agent_internal.any_word($1) q
             where d.tenant = (select agent.current_tenant()) and d.search @@ q and d.metadata @> $3
               and not exists (select from agent.document_link l
                                where l.tenant = d.tenant and l.to_id = d.id and l.relation = 'supersedes')
             order by rank desc, d.updated_at desc, d.id limit least(greatest($2, 1), 100)) f
     order by f.rank desc, f.updated_at desc, f.id
$$;
comment on function agent.search_documents(text, integer, jsonb) is 'Documents by words of title and body, best first';

-- Chunks of documents that fit a query, best first, those of superseded documents left out.
--
-- Args: weight: of the vector score; min_score: lower scores are left out; embedding: of the query.
-- Returns score: (1 - weight) * text_score + weight * vector_score; of a chunk or query without an embedding, text_score.
--   text_score: rank of the words / best rank found; vector_score: cosine similarity.
-- A document that is not cut yet is one chunk, its beginning.
create or replace function agent.retrieve(
    query text, k integer default 5, min_score double precision default 0, weight double precision default 0.5,
    metadata jsonb default '{}', embedding double precision[] default null, embedding_model text default null
)
    returns setof agent.retrieved_chunk
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _most    constant integer := least(greatest(coalesce(k, 5), 1), 100);
    _q       constant tsquery := agent_internal.any_word(query);
    _vector  constant text := agent_internal.schema_of_extension('vector');
    _length  constant integer := cardinality(embedding);
    _nearest text;
begin
    if weight is null or weight not between 0 and 1 then
        raise exception 'weight must be between 0 and 1, not %', weight using errcode = 'WA024';
    end if;
    if _vector is not null and embedding is not null then
        begin  -- else an index returns too few of a small tenant's rows; versions before 0.8 lack it
            perform set_config('hnsw.iterative_scan', 'relaxed_order', true);
        exception when others then null;
        end;
    end if;
    -- The same expression as that of the index, if there is one.
    _nearest := case when embedding is null then 'select null::text, null::uuid, null::integer where false'
        when _vector is not null then format(
            'select c.tenant, c.document_id, c.number from agent.document_chunk c where cardinality(c.embedding) = %1$s and c.embedding_model = $5 '
            'and c.tenant = $9 '
            'order by c.embedding::%2$s.vector(%1$s) operator(%2$s.<=>) $4::%2$s.vector(%1$s) limit $6', _length, _vector)
        else 'select c.tenant, c.document_id, c.number from agent.document_chunk c where cardinality(c.embedding) = cardinality($4) '
             'and c.embedding_model = $5 and c.tenant = $9 order by agent_internal.cosine(c.embedding, $4::real[]) desc limit $6' end;
    return query execute format($sql$
        with worded as (
            select c.tenant, c.document_id, c.number
              from agent.document_chunk c where c.tenant = $9 and c.search @@ $1 order by ts_rank(c.search, $1) desc limit $6
        ), nearest as materialized (%1$s
        ), candidate as (
            select c.document_id, c.number, d.title, d.source, c.content, case when c.search @@ $1 then ts_rank(c.search, $1) else 0 end::double precision as rank,
                   case when c.embedding_model = $5 and cardinality(c.embedding) = cardinality($4) then greatest(%2$s, 0) end::double precision as near
              from (select * from worded union select * from nearest) n
                   join agent.document_chunk c on (c.tenant, c.document_id, c.number) = (n.tenant, n.document_id, n.number)
                   join agent.document d on d.tenant = c.tenant and d.id = c.document_id
             where d.metadata @> $3
               and not exists (select from agent.document_link l where l.tenant = d.tenant and l.to_id = d.id and l.relation = 'supersedes')
            union all
            select * from (
                select d.id, 1, d.title, d.source, left(d.body, 2000), ts_rank(d.search, $1)::double precision as rank, null::double precision
                  from agent.document d
                 where d.tenant = $9 and d.indexed_version is null and d.search @@ $1 and d.metadata @> $3
                   and not exists (select from agent.document_link l where l.tenant = d.tenant and l.to_id = d.id and l.relation = 'supersedes')
                 order by rank desc limit $6) u
        ), scored as (
            select c.*, coalesce(c.rank / nullif(max(c.rank) over (), 0), 0) as text_score from candidate c
        ), final as (
            select s.*, case when s.near is null then s.text_score else (1 - $7) * s.text_score + $7 * s.near end as score from scored s
        )
        select f.document_id, f.number, f.title, f.source, f.content, f.score, f.text_score, f.near
          from final f where f.score >= $8 and f.score > 0
         order by f.score desc, f.document_id, f.number limit $2
        $sql$, _nearest, agent_internal.cosine_expression('c.embedding', '$4::real[]'))
    using _q, _most, coalesce(metadata, '{}'), embedding::real[], embedding_model, _most * 10 + 50, weight, coalesce(min_score, 0),
          agent.current_tenant();
end;
$$;
comment on function agent.retrieve(text, integer, double precision, double precision, jsonb, double precision[], text) is 'Chunks of documents by words and meaning, best first';

create or replace function agent_internal.builtin_retrieve(_run bigint, _arguments jsonb)
    returns jsonb
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    return (select coalesce(jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
                       'document', r.document_id, 'part', r.number, 'title', r.title, 'source', nullif(r.source, ''), 'content', r.content,
                       'score', round(r.score::numeric, 3))) order by r.score desc), '[]')
              from agent.retrieve(
                       _arguments ->> 'query', coalesce((_arguments ->> 'k')::integer, 5),
                       coalesce((_arguments ->> 'min_score')::double precision, 0), 0.5, '{}',
                       (select array_agg(v::double precision order by n)
                          from jsonb_array_elements_text(nullif(_arguments -> 'embedding', 'null')) with ordinality as e (v, n)),
                       _arguments ->> 'embedding_model') r);
end;
$$;
