-- key: id
-- parameters: id
-- One call, with everything that its decision binds.
-- include: _approval_read
 where p.id = %(id)s::bigint
