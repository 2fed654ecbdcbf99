-- key: id
-- parameters: q, before, limit
-- A page of the documents that agents retrieve, the last changed first; with q, the best found.  before: the place of the last one
-- of the page before.
with wanted as (
    select w.id, w.score, w.excerpt from agent.search_documents(nullif(%(q)s, ''), 50) w where %(q)s <> ''
     union all
    (select d.id, null, null
       from agent.document d
      where %(q)s = '' and d.tenant = agent.current_tenant()
        and (%(before)s = ''
             or (extract(epoch from d.updated_at), d.id)
                < (nullif(split_part(%(before)s, ' ', 1), '')::numeric, nullif(split_part(%(before)s, ' ', 2), '')::uuid))
      order by d.updated_at desc, d.id desc
      limit least(%(limit)s::integer, 500)))
select d.id, d.title, d.source, left(d.body, 200) as beginning, w.excerpt, octet_length(d.body) as size, d.updated_at, d.created_by::text,
-- include: _document_state
       as state,
       exists (select from agent.document_link l where l.tenant = d.tenant and l.to_id = d.id and l.relation = 'supersedes') as is_superseded,
       concat_ws(' ', extract(epoch from d.updated_at), d.id) as place
  from wanted w
       join agent.document d on d.tenant = agent.current_tenant() and d.id = w.id
 order by w.score desc nulls last, d.updated_at desc, d.id desc
