-- key: id
-- parameters: name
-- The latest runs of a workflow, of the newest 20,000 of all: where each is, and the call that waits for a person.
select r.id, r.state::text, r.change #>> '{new,version}' as version, r.created_at, r.finished_at, r.error ->> 'reason' as reason,
       (select s.content #>> '{workflow,node}' from agent.step s
         where s.run_id = r.id and s.kind = 'result' and s.content ? 'workflow' order by s.seq desc limit 1) as node,
       (select max(p.id) from agent.approval p where p.run_id = r.id and p.state = 'pending') as approval
  from agent.run r
 where r.kind = 'node' and r.change #>> '{new,workflow}' = %(name)s and r.id > (select max(n.id) from agent.run n) - 20000
 order by r.id desc
 limit 50
