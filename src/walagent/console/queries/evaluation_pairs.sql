-- key: first_number
-- parameters: first, second, before, limit
-- A page of the cases that two evaluations share and in which the candidates differ; before: the first number of the last one.
with pair as materialized (
-- include: _case_pairs
), differing as materialized (
    select g.*
      from pair g
     where not g.agrees and (%(before)s = '' or g.first_number > nullif(%(before)s, '')::integer)
     order by g.first_number
     limit least(%(limit)s::integer, 200))
select o.first_number, o.second_number, o.first_right, o.second_right, o.same_label, p.run_id, p.case_id,
-- include: _subject
,
       (select w.what from (select p.candidate as outcome) s cross join lateral (
-- include: _what_outcome
       ) w) as first,
       (select w.what from (select q.candidate as outcome) s cross join lateral (
-- include: _what_outcome
       ) w) as second
  from differing o
       join agent.evaluation_case p on p.evaluation_id = %(first)s::bigint and p.number = o.first_number
       join agent.evaluation_case q on q.evaluation_id = %(second)s::bigint and q.number = o.second_number
-- include: _case_row
 order by o.first_number
