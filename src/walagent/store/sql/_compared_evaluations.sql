-- What two evaluations have in common: one row.  Right is counted where both have the same label.
select count(*) as cases, count(*) filter (where p.agrees) as agreeing,
       count(*) filter (where p.is_tested) as tested,
       count(*) filter (where p.is_tested and p.first_right) as first_right, count(*) filter (where p.is_tested and p.second_right) as second_right,
       count(*) filter (where p.is_tested and p.second_right and not p.first_right) as better,
       count(*) filter (where p.is_tested and p.first_right and not p.second_right) as worse
  from (select q.*, q.same_label and q.first_right is not null and q.second_right is not null as is_tested from (
-- include: _case_pairs
       ) q) p
