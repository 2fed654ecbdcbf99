-- key: id
-- parameters: ids
-- The runs of a list as they are now, by ID: they may have left its filter.
select
-- include: _run_row
-- include: _run_from
 where r.id = any (string_to_array(%(ids)s, ',')::bigint[])
 limit 200
