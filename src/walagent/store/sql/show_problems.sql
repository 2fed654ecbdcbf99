-- What a person must act on, and what can wait.
with
-- include: _counts
,
-- include: _problems
select p.urgency, p.kind, p.tenant, p.subject, p.text, p.detail, p.fix, p.since from problem p order by p.urgency, p.since nulls last, p.text
