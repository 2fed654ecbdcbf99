-- What is there now, whatever the day had: read every 30 s by each process.
counts as (
    select -- By the partial indexes: there is none on all pending runs.
           (select count(*) from (select from agent.run where state = 'pending' and blocked_by is null and not_before is null limit 100001) p)
               + (select count(*) from (select from agent.run where state = 'pending' and blocked_by is not null limit 100001) p)
               + (select count(*) from (select from agent.run where state = 'pending' and blocked_by is null and not_before is not null limit 100001) p)
               as pending,
           (select count(*) from agent.run where state = 'running') as running,
           (select count(*) from agent.worker where seen_at > now() - interval '2 minutes')::integer as workers,
           (select count(*) from agent.gap where resolved_at is null)::integer as gaps)
