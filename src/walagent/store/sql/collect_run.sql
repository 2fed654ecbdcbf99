-- Add a change to the collecting run of its ordering key, or start a collecting run.
-- The lock keeps that run from starting: agent_internal.tick() skips a locked run.
with collecting as (
    select r.id, r.created_at
      from agent.run r
     where r.queue_id = %(attachment)s  -- an attachment's queue has its ID
       and r.ordering_key is not distinct from %(ordering_key)s
       and r.tenant = coalesce(%(tenant)s, agent.current_tenant())
       and r.state = 'pending' and r.not_before is not null
       -- A claim returns all changes of a run as one document, and a model reads them at once.
       and (select count(*) < 1000 and coalesce(sum(m.size), 0) < 4 << 20
              from agent_internal.merged_change m where m.run_id = r.id)
     order by r.id + 0
     limit 1
       for no key update
), given as (
    select n.*
      from jsonb_populate_recordset(null::agent.new_run, %(run)s::jsonb) n
     -- A change that was recorded before, as the first of a run or a later one, is ignored.
     where not exists (select from agent.run r
                        where (r.attachment_id, r.generation, r.commit_lsn, r.ordinal)
                            = (n.attachment_id, %(generation)s, n.commit_lsn, n.ordinal))
       and not exists (select from agent_internal.merged_change c
                        where (c.attachment_id, c.generation, c.commit_lsn, c.ordinal)
                            = (n.attachment_id, %(generation)s, n.commit_lsn, n.ordinal))
), joined as (
    insert into agent_internal.merged_change (attachment_id, generation, commit_lsn, ordinal, run_id, change)
    select g.attachment_id, %(generation)s, g.commit_lsn, g.ordinal, c.id, g.change
      from given g cross join collecting c
    on conflict do nothing
    returning run_id
), extended as (
    -- Each change restarts the window, but the run starts at the latest ten windows after the first.
    update agent.run r
       set not_before = least(agent_internal.now() + make_interval(secs => %(debounce)s),
                              r.created_at + make_interval(secs => 10 * %(debounce)s))
      from joined j
     where r.id = j.run_id
    returning 1
), started as (
    insert into agent.run (tenant, queue_id, attachment_id, attachment_version, generation, commit_lsn, ordinal, committed_at,
                           change, key, ordering_key, max_attempts, cause_run, depth, priority, not_before)
    select coalesce(tenant, agent.current_tenant()), attachment_id, attachment_id, attachment_version, %(generation)s, commit_lsn, ordinal, committed_at,
           change, key, ordering_key, max_attempts, cause_run, coalesce(depth, 0), coalesce(priority, 0),
           agent_internal.now() + make_interval(secs => %(debounce)s)
      from given
     where not exists (select from collecting)
    on conflict on constraint run_once_per_change do nothing  -- planted: no-unique-key/collect
    returning 1
)
select exists (select from joined) or exists (select from started), exists (select from extended)
