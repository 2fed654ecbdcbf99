-- key: id
-- parameters: run
-- One run, with its change and position.
select
-- include: _run_row
,
       v.definition ->> 'run_as' as run_as,
       case when r.change ? 'op' then
           agent_internal.shown(r.change, r.attachment_id, (select agent_internal.readable())) end as change,
       '[]'::jsonb as merged,
       r.commit_lsn::text, r.ordinal, r.generation, null::text as xid, r.ordering_key, r.worker, r.lease_expires_at, r.cause_run, r.depth,
       case when r.reason <> 'change' then r.reason
            else concat_ws(', ', upper(r.change ->> 'op'), coalesce('when ' || (v.definition ->> 'condition'), 'no condition')) end as matched_by,
       r.started_at, r.result, r.error,
       coalesce((select jsonb_object_agg(d ->> 'name', d -> 'bind') from jsonb_array_elements(v.definition -> 'tools') d
                  where jsonb_typeof(d -> 'bind') = 'object'), '{}') as bound,
       t.input_tokens, t.output_tokens, t.working_ms
-- include: _run_from
       cross join lateral (
           select coalesce(sum(coalesce(s.input_tokens, 0) + coalesce(s.cached_tokens, 0) + coalesce(s.cache_write_tokens, 0)), 0)::bigint
                      as input_tokens,
                  coalesce(sum(s.output_tokens), 0)::bigint as output_tokens,
                  sum(s.duration_ms)::integer as working_ms
             from agent.step s where s.run_id = r.id) t
 where r.id = %(run)s::bigint
