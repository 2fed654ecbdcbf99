create type agent.retrieved_chunk as (
    document_id uuid, number integer, title text, source text, content text, score double precision, text_score double precision,
    vector_score double precision
);
comment on type agent.retrieved_chunk is 'A chunk as agent.retrieve() returns it, with its scores from 0 to 1';
