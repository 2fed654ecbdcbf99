select t.name, t.display_name, t.active,
       (select count(*) from agent.principal p where p.tenant = t.name) as principals,
       t.created_at
  from agent.tenant t
 order by t.name
