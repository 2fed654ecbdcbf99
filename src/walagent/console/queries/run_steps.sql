-- key: run_id, seq
-- parameters: run
-- The recorded steps of a run.
select s.run_id, s.seq, s.kind, s.content, s.input_tokens, s.cached_tokens, s.output_tokens, s.cost, s.duration_ms, s.recorded_at
  from agent.step s
 where s.run_id = %(run)s::bigint
 order by s.seq
