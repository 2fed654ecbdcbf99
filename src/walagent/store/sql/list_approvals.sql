-- Tool calls that wait for approval, the oldest first.
select p.id, p.run_id, p.attachment, p.tool, p.arguments, p.bound, p.relation, p.key, p.content, p.asked_at, p.expires_at
  from agent.pending_approval p
 order by p.id
