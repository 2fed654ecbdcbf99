-- What a run of kind revert has done, once it has ended.
select r.undoes as run,
       r.id as revert,
       r.state::text,
       coalesce(r.result, r.error ->> 'reason') as result,
       coalesce((s.content #> '{revert,done}')::boolean, false) as done,
       coalesce(s.content #> '{revert,outside}', '[]') as outside,
       coalesce(s.content #> '{revert,unseen}', '[]') as unseen,
       coalesce((select jsonb_agg(jsonb_build_object(
                            'run', r.undoes, 'step', t.value -> 'step', 'op', o.value -> 'op', 'relation', o.value -> 'table',
                            'key', (select string_agg(k.value, ', ') from jsonb_each_text(nullif(o.value -> 'key', 'null')) k),
                            'outcome', o.value -> 'outcome', 'reason', o.value -> 'reason', 'columns', o.value -> 'columns',
                            'kept', o.value -> 'kept', 'omitted', o.value -> 'omitted') order by t.n, o.n)
                   from jsonb_array_elements(s.content #> '{revert,steps}') with ordinality as t (value, n),
                        jsonb_array_elements(t.value -> 'rows') with ordinality as o (value, n)), '[]') as rows
  from agent.run r
       left join agent.step s on s.run_id = r.id and s.kind = 'result'
 where r.id = %(run)s and agent_internal.is_final(r.state)
