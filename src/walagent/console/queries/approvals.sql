-- key: id
-- Tool calls that wait for a person.
select
-- include: _approval
-- include: _approval_from
 where p.state = 'pending'
 order by p.id
