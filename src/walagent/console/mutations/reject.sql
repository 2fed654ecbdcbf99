-- role: approver
-- parameters: id, digest, reason
-- Reject a pending call; the model reads the reason.
select agent.reject(p.id, %(reason)s) from agent.approval p where p.id = %(id)s::bigint and p.digest = %(digest)s
