-- One run with everything that belongs to it.
select r.id,
       r.kind,
       coalesce(a.name, v.definition ->> 'name') as attachment,
       r.principal,
       q.session_id as session,
       q.text as question,
       r.attachment_version as version,
       r.reason,
       r.state::text,
       r.key,
       r.ordering_key,
       agent_internal.shown(r.change, r.attachment_id, (select agent_internal.readable())) as change,
       r.commit_lsn::text,
       r.ordinal,
       r.committed_at,
       r.cause_run,
       r.undoes,
       r.fork_of,
       r.fork_step,
       (select array_agg(f.id order by f.id) from agent.run f where f.fork_of = r.id) as forks,
       (select coalesce(sum(c.rows), 0)::bigint from agent.row_change c where c.run_id = r.id) as changed,
       (select coalesce(jsonb_agg(jsonb_build_object('principal', o.principal, 'value', o.value, 'comment', o.comment,
                                                     'scored_at', o.scored_at) order by o.scored_at, o.principal), '[]')
          from agent.score o
         where o.run_id = r.id) as scores,
       r.depth,
       r.attempt,
       r.max_attempts,
       r.worker,
       r.blocked_by,
       r.not_before,
       r.next_attempt_at,
       r.cancel_requested,
       r.result,
       r.error ->> 'reason' as error,
       r.tokens,
       r.cost::float8,
       r.created_at,
       r.started_at,
       r.finished_at,
       v.definition ->> 'agent' as agent,
       coalesce(v.definition ->> 'model', (select coalesce(s.content ->> 'registered', s.content ->> 'model') from agent.step s
                                            where s.run_id = r.id and s.kind = 'reply' order by s.seq limit 1)) as model,
       v.definition ->> 'run_as' as run_as,
       (select coalesce(jsonb_agg(agent_internal.shown(m.change, m.attachment_id, (select agent_internal.readable()))
                                  order by m.commit_lsn, m.ordinal), '[]')
          from agent_internal.merged_change m
         where m.run_id = r.id) as merged,
       (select coalesce(jsonb_agg(jsonb_build_object(
                   'seq', s.seq, 'kind', s.kind, 'content', s.content, 'recorded_at', s.recorded_at,
                   'tokens', coalesce(s.input_tokens, 0) + coalesce(s.cached_tokens, 0)
                             + coalesce(s.cache_write_tokens, 0) + coalesce(s.output_tokens, 0),
                   'cost', s.cost, 'duration_ms', s.duration_ms) order by s.seq), '[]')
          from agent.step s
         where s.run_id = r.id) as steps,
       (select coalesce(jsonb_agg(to_jsonb(p) - 'digest' order by p.id), '[]')
          from agent.approval p
         where p.run_id = r.id) as approvals
  from agent.run r
       left join agent.question q on q.run_id = r.id
       left join agent.attachment a on a.id = r.attachment_id
       left join agent.attachment_version v
         on v.attachment_id = r.attachment_id and v.version = r.attachment_version
 where r.id = %(run)s
