-- The last change of each row that has a run, and whether a run of the attachment wrote the current
-- row: the time of a step is that of its transaction, as is now() in a trigger that dates the row.
with given as (
    select * from unnest(%(keys)s::text[], %(times)s::timestamptz[]) as g (key, changed_at)
), mine as (
    select r.id, r.key, r.generation, r.commit_lsn, r.ordinal, r.change
      from pg_temp.walagent_run m join agent.run r using (id)
     where m.key = any (%(keys)s)
), changed as (
    select id, key, generation, commit_lsn, ordinal, change from mine
    union all
    select m.id, m.key, c.generation, c.commit_lsn, c.ordinal, c.change
      from mine m join agent_internal.merged_change c on c.run_id = m.id
)
select distinct on (g.key)
       g.key,
       c.change,
       exists (select from mine m join agent.step s on s.run_id = m.id
                where m.key = g.key and s.kind = 'result' and s.recorded_at = g.changed_at)
  from given g join changed c using (key)
 order by g.key, c.generation desc, c.commit_lsn desc nulls last, c.ordinal desc
