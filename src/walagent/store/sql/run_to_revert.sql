-- What it takes to revert a run: as whom it acted, what it changed, and which of its calls are not seen there.
select v.definition,
       agent_internal.changes_to_revert(r.id) as changes,
       (select coalesce(jsonb_agg(jsonb_build_object('step', s.seq, 'name', s.content ->> 'name') order by s.seq), '[]')
          from agent.step s where s.run_id = r.id and s.kind = 'intent' and not s.content ? 'kept') as outside,
       (select coalesce(jsonb_agg(jsonb_build_object('step', s.seq, 'name', s.content ->> 'name') order by s.seq), '[]')
          from agent.step s
         where s.run_id = r.id and s.kind = 'result' and not (s.content -> 'is_error')::boolean and not s.content ? 'kept'
           and not exists (select from agent.step i
                            where i.run_id = s.run_id and i.kind = 'intent' and i.content ->> 'call_id' = s.content ->> 'call_id')
           and not exists (select from jsonb_array_elements(v.definition -> 'tools') t
                            where t ->> 'name' = s.content ->> 'name' and t ->> 'effect' = 'read')
           and not exists (select from agent.row_change c where c.run_id = s.run_id and c.step = s.seq)) as unseen
  from agent.run r
       left join agent.run a on a.id = agent_internal.acting_run(r.id)
       left join agent.attachment_version v on v.attachment_id = a.attachment_id and v.version = a.attachment_version
 where r.id = %(run)s
