-- Cases that two evaluations share, those of the same run, case of a dataset or question, and whether the candidates had the
-- same effects; of a question, whether both had the rows that are expected, or neither.
select a.number as first_number, b.number as second_number,
       a.is_right as first_right, b.is_right as second_right, a.expected = b.expected as same_label,
       (a.candidate ->> 'state' = 'succeeded') = (b.candidate ->> 'state' = 'succeeded')
           -- Of calls that are equal, no part has to be compared.
           and (a.candidate -> 'calls' = b.candidate -> 'calls'
                or jsonb_path_query_array(a.candidate, '$.calls[*] ? (@.state == "done" && @.reads == false)')
                   = jsonb_path_query_array(b.candidate, '$.calls[*] ? (@.state == "done" && @.reads == false)'))
           and (not a.candidate ? 'question' or a.is_right is not distinct from b.is_right) as agrees
  from agent.evaluation_case a
       join agent.evaluation_case b on (a.run_id is null) = (b.run_id is null) and coalesce(a.run_id, a.case_id) = coalesce(b.run_id, b.case_id)
                                  and (a.candidate ? 'question') = (b.candidate ? 'question')
 where a.evaluation_id = %(first)s::bigint and b.evaluation_id = %(second)s::bigint
