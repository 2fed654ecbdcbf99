-- role: approver
-- parameters: id, digest, arguments
-- Approve a pending call with other arguments; bound ones stay.
select agent.approve(p.id, p.arguments || %(arguments)s::jsonb) from agent.approval p where p.id = %(id)s::bigint and p.digest = %(digest)s
