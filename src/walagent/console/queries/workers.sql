-- key: name
-- Processes that execute runs.
select w.name, w.version, w.slots, w.started_at, w.seen_at, w.seen_at > now() - interval '2 minutes' as is_working,
       (select count(*) from agent.run r where r.state = 'running' and r.worker = w.name)::integer as running
  from agent.worker w
 order by w.seen_at desc
 limit 100
