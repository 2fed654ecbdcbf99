-- key: name, value
-- What the filter of memories suggests: agents and people that have some.
select distinct o.name, o.value
  from (select m.agent, m.principal
-- include: _memory_from
       ) m
       cross join lateral (values ('agent', m.agent::text), ('about', m.principal::text)) o (name, value)
 where o.value is not null
 order by 1, 2
 limit 500
