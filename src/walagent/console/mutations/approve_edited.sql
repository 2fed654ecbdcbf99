-- role: approver
-- parameters: id, digest, arguments
-- Approve a pending call with other arguments.
select agent.approve(p.id, %(arguments)s::jsonb) from agent.approval p where p.id = %(id)s::bigint and p.digest = %(digest)s
