-- Cosine similarity of two embeddings, from -1 to 1; NULL if one has another length or is 0.
create or replace function agent_internal.cosine(_a real[], _b real[])
    returns double precision
    language sql
    immutable
    parallel safe
begin atomic
    select case when cardinality(_a) = cardinality(_b) then
        sum(a::double precision * b) / nullif(sqrt(sum(a::double precision * a)) * sqrt(sum(b::double precision * b)), 0) end
      from unnest(_a, _b) as pairs (a, b);
end;
comment on function agent_internal.cosine(real[], real[]) is 'Cosine similarity of two embeddings, without an extension';

-- The expression that compares two embeddings: SQL text, with their expressions inserted.
create or replace function agent_internal.cosine_expression(_a text, _b text)
    returns text
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select coalesce(
        (select format('case when cardinality(%1$s) = cardinality(%2$s) then 1 - (%1$s::%3$s.vector operator(%3$s.<=>) %2$s::%3$s.vector) end',
                       _a, _b, s.name)
           from agent_internal.schema_of_extension('vector') as s (name) where s.name is not null),
        format('agent_internal.cosine(%s, %s)', _a, _b))
$$;

-- The words of a text as a query for any of them; NULL: it has none.
create or replace function agent_internal.any_word(_text text)
    returns tsquery
    language sql
    immutable
    set search_path = pg_catalog, pg_temp
as $$ select string_agg(quote_literal(lexeme), ' | ')::tsquery from unnest(to_tsvector('english', _text)) $$;
comment on function agent_internal.any_word(text) is 'A query for any of the words of a text';

-- A live memory of the caller's tenant, locked.
create or replace function agent_internal.live_memory(_id uuid)
    returns agent.memory
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _memory agent.memory;
begin
    if not agent.has_role('developer') then
        raise exception 'changing memories requires the role developer' using errcode = '42501';
    end if;
    select * into _memory from agent.memory m where m.id = _id and m.tenant = agent.current_tenant() for no key update;
    if _memory.id is null then
        raise exception 'memory % does not exist', _id using errcode = 'WA024';
    elsif _memory.superseded_by is not null then
        raise exception 'memory % was replaced by %', _id, _memory.superseded_by using errcode = 'WA024';
    elsif _memory.retracted_at is not null then
        raise exception 'memory % was retracted', _id using errcode = 'WA024';
    end if;
    return _memory;
end;
$$;

-- The live memories of an agent that fit, best first.
--
-- Args: _query: words; NULL: all fit equally.  _thread: also those of this thread.  _embedding: of the query.
--       _count: whether they count as recalled, which a read-only transaction never does.
-- Returns score, from 0 to 1:
--   text      the greater of: rank of the words / best rank found; word similarity of pg_trgm, if installed
--   relevance text, or, with embeddings of one model, their mean: 0.5 * text + 0.5 * cosine similarity
--   score     relevance * (0.7 + 0.3 * importance), halved if it is disputed
create or replace function agent_internal.recall_memories(
    _tenant text, _agent name, _query text, _kind text, _k integer, _thread uuid, _principal name, _embedding double precision[],
    _model text, _count boolean
)
    returns setof agent.recalled_memory
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _trigram text := (select format('%s.word_similarity($3, concat_ws('' '', m.key, m.value #>> ''{}''))', s)
                        from agent_internal.schema_of_extension('pg_trgm') s where s is not null);
    _found   agent_internal.scored_id[];
begin
    execute format($sql$
        with live as (
            select m.*, case when m.search @@ $4 then ts_rank(m.search, $4) else 0 end as rank,
                   coalesce(%1$s, 0)::double precision as alike,
                   case when m.embedding_model = $9 then greatest(%2$s, 0) end::double precision as near
              from agent.memory m
             where m.tenant = $1 and m.agent = $2 and m.superseded_by is null and m.retracted_at is null
               and (m.expires_at is null or m.expires_at > agent_internal.now())
               and (m.thread_id is null or m.thread_id = $6)
               and ($5 is null or m.kind = $5) and ($7 is null or m.principal = $7)
        ), scored as (
            select l.*, case when $3 is null then 1
                             else greatest(coalesce(l.rank / nullif(max(l.rank) over (), 0), 0), case when l.alike > 0.3 then l.alike end) end as text
              from live l
        ), fitting as (
            select s.*, case when $3 is null or s.near is null then s.text else 0.5 * s.text + 0.5 * s.near end as relevance
              from scored s
             where s.text > 0 or s.near > 0
        )
        select array_agg(row(f.id, f.relevance * (0.7 + 0.3 * f.importance) * case when f.disputed then 0.5 else 1 end)::agent_internal.scored_id
                         order by f.relevance * (0.7 + 0.3 * f.importance) * case when f.disputed then 0.5 else 1 end desc, f.created_at desc, f.id)
          from (select * from fitting f
                 order by f.relevance * (0.7 + 0.3 * f.importance) * case when f.disputed then 0.5 else 1 end desc, f.created_at desc, f.id
                 limit $10) f
        $sql$, coalesce(_trigram, 'null'), agent_internal.cosine_expression('m.embedding', '$8::real[]'))
       into _found
      using _tenant, _agent, nullif(btrim(_query), ''), agent_internal.any_word(_query), _kind, _thread, _principal, _embedding,
            _model, least(greatest(coalesce(_k, 5), 1), 100);
    if _count and current_setting('transaction_read_only') = 'off' then
        update agent.memory m set access_count = m.access_count + 1, accessed_at = agent_internal.now()
          from unnest(_found) f where m.tenant = _tenant and m.id = f.id;
    end if;
    return query
        select m.id, m.kind, m.key, m.value, f.score, m.importance, m.trust, m.disputed, m.thread_id, m.principal, m.created_at, m.expires_at
          from unnest(_found) with ordinality as f (id, score, place) join agent.memory m on m.tenant = _tenant and m.id = f.id
         order by f.place;
end;
$$;

create or replace function agent.recall(
    agent name, query text default null, kind text default null, k integer default 5, thread_id uuid default null,
    principal name default null, embedding double precision[] default null, embedding_model text default null
)
    returns setof agent.recalled_memory
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    if not (agent.has_role('viewer') or agent.has_role('developer')) then
        raise exception 'recalling memories requires the role viewer or developer' using errcode = '42501';
    end if;
    return query select * from agent_internal.recall_memories(
        agent.current_tenant(), recall.agent, recall.query, recall.kind, recall.k, recall.thread_id, recall.principal,
        recall.embedding, recall.embedding_model, true);
end;
$$;
comment on function agent.recall(name, text, text, integer, uuid, name, double precision[], text) is 'Memories of an agent, best first; counts the access unless the transaction is read-only';

-- The tenant and agent of a run, which its tools act for.
create or replace function agent_internal.scope_of(_run bigint, out tenant text, out agent name)
    language plpgsql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    select r.tenant, coalesce(case when r.kind = 'turn' then r.principal end, v.definition ->> 'agent',
                              -- Of a workflow: the agent of the node that has asked last; branches call no tools themselves.
                              case when r.kind = 'node' then (select s.content ->> 'agent' from agent.step s
                                                               where s.run_id = _run and s.kind = 'reply' order by s.seq desc limit 1) end)
      into tenant, agent
      from agent.run r
           left join agent.attachment_version v on v.attachment_id = r.attachment_id and v.version = r.attachment_version
     where r.id = _run;
    if agent is null then
        raise exception 'run % has no agent', _run using errcode = 'WA024';
    end if;
end;
$$;
comment on function agent_internal.scope_of(bigint) is 'Tenant and agent that the tools of a run act for';

create or replace function agent_internal.builtin_recall(_run bigint, _arguments jsonb)
    returns jsonb
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _scope constant record := agent_internal.acting_scope(_run);
begin
    return (select coalesce(jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
                       'id', r.id, 'kind', r.kind, 'key', r.key, 'value', r.value, 'about', r.principal, 'trust', r.trust,
                       'disputed', nullif(r.disputed, false), 'at', r.created_at, 'score', round(r.score::numeric, 3)))
                       order by r.score desc, r.created_at desc), '[]')
              from agent_internal.recall_memories(
                       _scope.tenant, _scope.agent, _arguments ->> 'query', _arguments ->> 'kind',
                       coalesce((_arguments ->> 'k')::integer, 5), _scope.thread_id, (_arguments ->> 'about')::name,
                       (select array_agg(v::double precision order by n)
                          from jsonb_array_elements_text(nullif(_arguments -> 'embedding', 'null')) with ordinality as e (v, n)),
                       _arguments ->> 'embedding_model', true) r);
end;
$$;
