-- How the candidate of evaluation o differs from the version in use.
jsonb_strip_nulls(jsonb_build_object('model', o.draft -> 'model', 'file', o.draft -> 'file',
                                     'prompt', case when o.draft ? 'system_prompt' then true end)) as differs
