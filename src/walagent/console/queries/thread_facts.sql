-- key: id
-- parameters: thread
-- What agents know from a thread, without what was corrected or withdrawn.
select f.id, f.subject::text, p.kind as subject_kind, f.predicate, f.object, f.category, f.confidence, f.disputed,
       f.created_at, e.author::text as said_by
  from agent.fact f
       join agent.principal p on p.tenant = f.tenant and p.name = f.subject
       left join agent.event e on e.tenant = f.tenant and e.id = f.source_event
 where f.thread_id = nullif(%(thread)s, '')::uuid and f.superseded_by is null and f.retracted_at is null
 order by f.created_at desc, f.id
 limit 500
