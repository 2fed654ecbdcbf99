-- role: approver
-- parameters: runs, reason
-- Cancel the runs of a JSON array of IDs.
select jsonb_build_object('done', agent.cancel_runs(array(select value::bigint from jsonb_array_elements_text(%(runs)s::jsonb)), nullif(%(reason)s, '')),
                          'last', null)
