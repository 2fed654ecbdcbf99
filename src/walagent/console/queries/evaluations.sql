-- key: id
-- parameters: agent, attachment, dataset, before, limit
-- A page of evaluations, newest first; before: the last ID of the page before.
select o.id, o.attachment, o.agent, o.model, o.dataset, o.shadow, o.state, o.planned, o.cases, o.agreeing, o.differing, o.labelled, o.are_right,
       o.cost, o.started_at,
-- include: _candidate
  from (select p.id from agent.evaluation p
         where (%(before)s = '' or p.id < nullif(%(before)s, '')::bigint)
           and (%(agent)s = '' or p.agent = any (string_to_array(%(agent)s, ',')))
           and (%(attachment)s = '' or p.attachment = any (string_to_array(%(attachment)s, ',')))
           and (%(dataset)s = '' or p.dataset = any (string_to_array(%(dataset)s, ',')))
         order by p.id desc
         limit least(%(limit)s::integer, 100)) e
       join agent.evaluation_overview o on o.id = e.id
 order by o.id desc
