-- key: key
-- parameters: relation, key
-- Rows of a table as runs saw them last, with their runs; of the newest 2,000 runs, or of one key.
with newest as (
    select r.id, r.key, r.state, r.change, coalesce(r.committed_at, r.created_at) as at
      from agent.run r
     where (r.change ->> 'schema') || '.' || (r.change ->> 'table') = %(relation)s
       and (%(key)s = '' or r.key = %(key)s)
     order by r.id desc limit 2000)
select coalesce(n.key, '') as key, max(n.id) as id, max(n.at) as at,
       (array_agg(coalesce(nullif(n.change -> 'new', 'null'), n.change -> 'old') order by n.id desc))[1] as content,
       (array_agg(n.change ->> 'op' order by n.id desc))[1] as op,
       jsonb_agg(jsonb_build_object('id', n.id::text, 'state', n.state) order by n.id) as runs
  from newest n
 group by 1
 order by 2 desc
 limit 200
