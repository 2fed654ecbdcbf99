-- Budgets of an agent, attachment or model that is not there any more.
select b.name, x.what || ' ' || x.name
  from agent.budget b
       cross join lateral (
           values ('agent', b.agent, exists (select from agent.agent where name = b.agent)),
                  ('attachment', b.attachment, exists (select from agent.attachment where name = b.attachment)),
                  ('model', b.model, exists (select from agent.model where name = b.model))
       ) as x (what, name, there)
 where x.name is not null and not x.there
 order by 1
