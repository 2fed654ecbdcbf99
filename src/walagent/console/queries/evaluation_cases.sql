-- key: number
-- parameters: evaluation, only, before, limit
-- A page of cases of an evaluation, in the order of their numbers; before: the number of the last one of the page before.
with page as materialized (
    select x.*
      from agent.evaluation_case x
     where x.evaluation_id = %(evaluation)s::bigint
       and (%(before)s = '' or x.number > nullif(%(before)s, '')::integer)
       and
-- include: _case_filter
     order by x.number
     limit least(%(limit)s::integer, 200))
select p.number, p.run_id, p.case_id, p.agrees, p.was_right, p.is_right,
       p.verdict ->> 'right' as verdict, p.candidate ->> 'state' as state,
       d.id is not null and d.expected is distinct from p.expected as is_labelled_since,
-- include: _subject
,
       case when p.expected is not null then
-- include: _what_label
       end as expected,
       case when p.recorded is not null then (select w.what from (select p.recorded as outcome) s cross join lateral (
-- include: _what_outcome
       ) w) end as recorded,
       (select w.what from (select p.candidate as outcome) s cross join lateral (
-- include: _what_outcome
       ) w) as candidate
  from page p
-- include: _case_row
       cross join lateral (select t.* from (select p.expected as label) l cross join lateral (
-- include: _label
       ) t) e
 order by p.number
