-- key: name
-- Saved filters of the list of runs; is_removable: whether the caller can remove one.
select f.name, f.query, f.saved_by::text as saved_by, m.is_mine, m.is_mine or agent.has_role('admin') as is_removable
  from agent.saved_filter f
       cross join lateral (select f.saved_by = coalesce(agent.current_principal(), session_user) as is_mine) m
 order by 1
 limit 100
