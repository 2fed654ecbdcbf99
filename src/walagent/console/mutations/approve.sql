-- role: approver
-- parameters: id, digest
-- Approve a pending call; the digest must be the one that was read.
select agent.approve(p.id) from agent.approval p where p.id = %(id)s::bigint and p.digest = %(digest)s
