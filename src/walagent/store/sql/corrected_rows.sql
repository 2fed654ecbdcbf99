-- What people corrected of what an agent wrote, as examples: the row as its run saw it, and what is right; the latest first.
with corrected as (
    select k.run_id, jsonb_object_agg(k.column_name, agent_internal.json_of(a.atttypid, k.value)) as arguments, max(k.committed_at) as at
      from agent.correction k
           left join pg_catalog.pg_attribute a on a.attrelid = k.relation and a.attname = k.column_name and not a.attisdropped
     where k.kind = 'changed' and not k.omitted
     group by k.run_id
)
select r.id as run,
       r.key,
       (select jsonb_object_agg(f.key, f.value order by f.key)
          from jsonb_each(coalesce((select m.change from agent_internal.merged_change m where m.run_id = r.id
                                     order by m.commit_lsn desc, m.ordinal desc limit 1), r.change) -> 'new') f
         where jsonb_typeof(f.value) = 'string' and f.value <> '""'
           and not v.definition -> 'writes' ? f.key and not v.definition -> 'key_columns' ? f.key) as texts,
       coalesce((select jsonb_object_agg(n.name, agent_internal.json_of(a.atttypid, c.after ->> n.name))
                   from agent.row_change c
                        cross join lateral unnest(c.columns) as n (name)
                        left join pg_catalog.pg_attribute a on a.attrelid = c.relation and a.attname = n.name and not a.attisdropped
                  where c.run_id = r.id and c.source = 'statement' and v.definition -> 'writes' ? n.name and c.after ? n.name), '{}')
           || k.arguments as arguments
  from corrected k
       join agent.run r on r.id = k.run_id
       join agent.attachment_version v on v.attachment_id = r.attachment_id and v.version = r.attachment_version
 where v.definition ->> 'agent' = %(agent)s
 order by k.at desc, r.id desc
 limit %(limit)s
