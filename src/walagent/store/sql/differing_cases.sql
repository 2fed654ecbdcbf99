-- The cases that two evaluations share and in which the candidates differ: their numbers.
select p.first_number, p.second_number
  from (
-- include: _case_pairs
       ) p
 where not p.agrees
 order by p.first_number
