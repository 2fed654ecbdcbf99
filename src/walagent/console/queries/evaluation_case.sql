-- key: number
-- parameters: evaluation, number
-- One case of an evaluation: the row as it was, what was recorded, what the candidate did, the label of then, and the one of now.
select p.number, p.run_id, p.case_id, u.id is not null as has_run, p.agrees, p.was_right, p.is_right, p.verdict, p.recorded,
       p.candidate - '{changes}'::text[] as candidate, coalesce(w.changes, '[]') as changes,
       e.label as expected, e.hidden, n.label as label, n.hidden as label_hidden, d.labelled_by::text, d.labelled_at, s.name as dataset, r.merged, r.change,

-- include: _case_digest
       as digest,
-- include: _subject
  from agent.evaluation_case p
-- include: _case_row
       left join agent.dataset s on s.id = d.dataset_id
       cross join lateral (select t.* from (select p.expected as label) l cross join lateral (
-- include: _label
       ) t) e
       cross join lateral (select t.* from (select d.expected as label) l cross join lateral (
-- include: _label
       ) t) n
       cross join lateral (
           -- Of rows that the candidate would change, values of columns that the login of the principal can read in the table.
           select jsonb_agg(case when (select agent_internal.readable()) is null or not g.change ?| '{before,after}' then g.change
                                 else g.change - '{before,after}'::text[] || jsonb_build_object(
                                     'before', (select coalesce(jsonb_object_agg(f.key, f.value), '{}') from jsonb_each(nullif(g.change -> 'before', 'null')) f
                                                 where (select agent_internal.readable()) -> u.attachment_id::text ? f.key),
                                     'after', (select coalesce(jsonb_object_agg(f.key, f.value), '{}') from jsonb_each(nullif(g.change -> 'after', 'null')) f
                                                where (select agent_internal.readable()) -> u.attachment_id::text ? f.key)) end order by g.n) as changes
             from jsonb_array_elements(case jsonb_typeof(p.candidate -> 'changes') when 'array' then p.candidate -> 'changes' else '[]' end)
                  with ordinality g (change, n)) w
 where p.evaluation_id = %(evaluation)s::bigint and p.number = %(number)s::integer
