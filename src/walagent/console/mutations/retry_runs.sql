-- role: approver
-- parameters: runs, reason
-- Requeue the runs of a JSON array of IDs.
select jsonb_build_object('done', agent.retry_runs(array(select value::bigint from jsonb_array_elements_text(%(runs)s::jsonb))), 'last', null)
