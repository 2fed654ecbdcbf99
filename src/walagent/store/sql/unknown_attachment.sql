-- What is near to the name of an attachment; no row if there is one, or if one of this name has left runs.
select agent_internal.suggest(%(attachment)s, (select array_agg(a.name order by a.name) from agent.attachment a)) as hint
 where not exists (select from agent.attachment a where a.name = %(attachment)s)
   and not exists (select from agent.run_overview o where o.attachment = %(attachment)s)
