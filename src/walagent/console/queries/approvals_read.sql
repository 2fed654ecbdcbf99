-- key: id
-- parameters: ids
-- Calls with these IDs, with everything that decisions about them bind.
-- include: _approval_read
 where p.id = any (string_to_array(%(ids)s, ',')::bigint[])
 order by p.id
