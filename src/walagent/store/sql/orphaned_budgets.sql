-- Budgets whose agent, attachment, model or login does not exist.
select b.name, x.what || ' ' || x.name
  from agent.budget b
       cross join lateral (
           values ('agent', b.agent, exists (select from agent.agent where tenant = b.tenant and name = b.agent)),
                  ('attachment', b.attachment, exists (select from agent.attachment where tenant = b.tenant and name = b.attachment)),
                  ('model', b.model, exists (select from agent.model where scope in ('', b.tenant) and name = b.model)),
                  ('login', b.asker, exists (select from pg_roles where rolname = b.asker))
       ) as x (what, name, there)
 where x.name is not null and not x.there
 order by 1
