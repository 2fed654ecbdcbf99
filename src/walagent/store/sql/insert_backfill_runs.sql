-- Runs for rows that are there; a row that has one already gets no second.
insert into agent.run (reason, attachment_id, attachment_version, generation, change, key, ordering_key, backfill_key,
                       max_attempts, state, error, finished_at)
select 'backfill', %(attachment)s, %(version)s, %(generation)s, x.c, x.k, x.n, x.k,
       %(max_attempts)s, x.s, x.e, case when agent_internal.is_final(x.s) then agent_internal.now() end
  from jsonb_to_recordset(%(runs)s::jsonb) as x (k text, c jsonb, n text, s agent.run_state, e jsonb)
on conflict do nothing
