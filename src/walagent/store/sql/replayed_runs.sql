-- Ended runs of an attachment whose model was shown the change, newest first, with what they came to.
select r.id,
       r.attachment_version as version,
       r.key,
       r.change,
       (select coalesce(jsonb_agg(m.change order by m.commit_lsn, m.ordinal), '[]')
          from agent_internal.merged_change m
         where m.run_id = r.id) as merged,
       r.tenant,
       r.state::text,
       r.result,
       r.error ->> 'reason' as error,
       r.tokens,
       r.cost::float8,
       (select jsonb_object_agg(k.column_name, agent_internal.json_of(a.atttypid, k.value))
          from agent.correction k
               left join pg_catalog.pg_attribute a on a.attrelid = k.relation and a.attname = k.column_name and not a.attisdropped
         where k.run_id = r.id and k.kind = 'changed' and not k.omitted) as corrected,
       (select sum(s.value) from agent.score s where s.run_id = r.id)::float8 as score,
       (select coalesce(jsonb_agg(jsonb_build_object('seq', s.seq, 'kind', s.kind, 'content', s.content,
                                                     'duration_ms', s.duration_ms) order by s.seq), '[]')
          from agent.step s
         where s.run_id = r.id) as steps
  from agent.run r
 where r.attachment_id = %(attachment)s
   and r.kind = 'agent'
   and r.state = any (%(states)s::agent.run_state[])
   and (%(before)s::bigint is null or r.id < %(before)s)
   and (%(runs)s::bigint[] is null or r.id = any (%(runs)s))
   and (not %(corrected)s
        or exists (select from agent.correction k where k.run_id = r.id and k.kind = 'changed' and not k.omitted))
   and (not %(scored)s or exists (select from agent.score s where s.run_id = r.id))
   and agent_internal.was_shown(r.id)
 order by r.id desc
 limit %(limit)s
