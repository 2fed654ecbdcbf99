-- key: id
-- parameters: tool, decided_by, before, limit
-- Decided calls, newest first.
select
-- include: _approval
-- include: _approval_from
 where p.state in ('approved', 'rejected', 'expired')
   and (%(tool)s = '' or p.tool = %(tool)s)
   and (%(decided_by)s = '' or p.decided_by = %(decided_by)s)
   and (%(before)s = '' or p.id < nullif(%(before)s, '')::bigint)
 order by p.id desc
 limit least(%(limit)s::integer, 500)
