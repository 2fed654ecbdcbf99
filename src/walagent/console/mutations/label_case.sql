-- role: approver
-- parameters: evaluation, number, digest, expected
-- Say what is expected on the change of a case of a dataset; the digest must be that of what was read; no label: remove it.
select agent.label_case(d.id, nullif(%(expected)s, '')::jsonb)
  from agent.evaluation_case p
       join agent.dataset_case d on d.id = p.case_id
 where p.evaluation_id = %(evaluation)s::bigint and p.number = %(number)s::integer and %(digest)s =
-- include: _case_digest
