-- key: id
-- parameters: run
-- The forks of a run, and the run that it is a fork of, the newest first.
select r.id, r.fork_of, r.fork_step, r.state::text as state, r.created_at, s.content ->> 'by' as by,
       array(select k from unnest('{prompt,arguments}'::text[]) k where s.content ? k) as changed
  from agent.run r
       left join lateral (select s.content from agent.step s
                           where s.run_id = r.id and s.kind = 'note' and s.content ? 'fork'
                           order by s.seq desc limit 1) s on true
 where r.fork_of = %(run)s::bigint or r.id = %(run)s::bigint and r.fork_of is not null
 order by r.id desc
 limit 50
