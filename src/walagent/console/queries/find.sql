-- key: kind, id
-- parameters: text
-- Runs by number or key, agents, threads and tables by name.
(select 'run' as kind, r.id::text as id, 'Run ' || r.id as title,
        concat_ws(' ', (r.change ->> 'table'), r.key, r.state) as hint
   from agent.run r
  where r.key = %(text)s or r.id = case when %(text)s ~ '^[0-9]{1,18}$' then nullif(%(text)s, '')::bigint end
  order by r.id desc limit 8)
union all
(select 'agent', g.name, g.name, 'agent' from agent.agent g where strpos(lower(g.name), lower(%(text)s)) > 0 order by g.name limit 5)
union all
(select 'thread', t.id::text, coalesce(nullif(t.title, ''), 'Untitled thread'), 'thread' from agent.thread t
  where strpos(lower(t.title), lower(%(text)s)) > 0 order by t.created_at desc limit 5)
union all
(select distinct 'table', a.relation::text, a.relation::text, 'table' from agent.attachment a
  where strpos(lower(a.relation::text), lower(%(text)s)) > 0 limit 5)
