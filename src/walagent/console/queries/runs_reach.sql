-- key: oldest
-- parameters: before, size
-- How far text is searched next: in `size` numbers of runs below `before`, or in the newest; since: when the oldest was made.
select w.oldest, (select r.created_at from agent.run r where r.id >= w.oldest order by r.id limit 1) as since,
       exists (select from agent.run r where r.id < w.oldest) as is_partial
  from (select greatest(n.newest - least(coalesce(nullif(%(size)s, '')::bigint, 10000), 100000) + 1, 1) as oldest
          from (select max(r.id) as newest from agent.run r where %(before)s = '' or r.id < nullif(%(before)s, '')::bigint) n
         where n.newest is not null) w
