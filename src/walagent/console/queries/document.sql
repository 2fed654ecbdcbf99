-- key: id
-- parameters: id
-- A document whole: its text, its chunks, and documents that it is related to.
select d.id, d.title, d.source, d.body, d.metadata, d.version, d.created_by::text, d.created_at, d.updated_at,
-- include: _document_state
       as state,
       c.chunks, c.embedded, c.models, l.links, agent.has_role('developer') as may_change
  from agent.document d
       cross join lateral (select count(*) as chunks, count(k.embedding) as embedded,
                                  string_agg(distinct k.embedding_model, ', ') as models
                             from agent.document_chunk k where k.tenant = d.tenant and k.document_id = d.id) c
       cross join lateral (select coalesce(jsonb_agg(jsonb_build_object('relation', x.relation, 'id', x.id, 'title', o.title, 'is_of', x.is_of)
                                                     order by x.is_of, x.relation, o.title), '[]') as links
                             from (select k.relation, k.to_id, false from agent.document_link k
                                    where k.tenant = d.tenant and k.from_id = d.id
                                    union all
                                   select k.relation, k.from_id, true from agent.document_link k
                                    where k.tenant = d.tenant and k.to_id = d.id) x (relation, id, is_of)
                                  join agent.document o on o.tenant = d.tenant and o.id = x.id) l
 where d.tenant = agent.current_tenant() and d.id::text = %(id)s
