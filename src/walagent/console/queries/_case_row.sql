-- The row of case p as its reader may see it: r and c, as of a run.  Whose table it is, only a run says for certain.
left join agent.run u on u.id = p.run_id
left join agent.dataset_case d on d.id = p.case_id and not p.candidate ? 'question'
cross join lateral (
    select p.key, coalesce(jsonb_array_length(d.merged), (select count(*) from agent_internal.merged_change m where m.run_id = u.id)) as merged,
           agent_internal.shown(coalesce(d.merged -> -1, d.change,
                                         (select m.change from agent_internal.merged_change m where m.run_id = u.id order by m.commit_lsn desc, m.ordinal desc limit 1),
                                         u.change), u.attachment_id, (select agent_internal.readable())) as change) r
cross join lateral (select coalesce(nullif(r.change -> 'new', 'null'), nullif(r.change -> 'old', 'null'), '{}') as content) c
cross join lateral (select null::uuid as id, p.candidate ->> 'question' as title) thread
