-- key: side
-- parameters: attachment
-- What both versions of an attachment with a canary or a shadow came to, and the latest runs of each.
select f.side, f.version, f.share, f.runs, f.ended, f.failures, f.corrections, f.cost, f.latency, f.calls, f.same, f.other, f.failed, f.waiting,
       c.shadow, c.begun_at, c.begun_by::text as begun_by, c.rollback_if, c.min_runs,
       case when f.side = 'shadow'
            then array(select w.run_id::text from agent.shadow_run w
                        where w.attachment_id = c.attachment_id and w.version = c.version and w.outcome in ('other', 'failed')
                        order by w.run_id desc limit 5)
            else array(select r.id::text from agent.run r
                        where r.attachment_id = c.attachment_id and r.attachment_version = f.version and r.id > c.after_run
                        order by r.id desc limit 5) end as latest
  from agent.canary c
       join agent.canary_figures f on f.tenant = c.tenant and f.attachment = c.attachment and f.canary = c.version and f.state = 'running'
 where c.tenant = agent.current_tenant() and c.attachment = %(attachment)s and c.state = 'running'
 order by f.side = 'baseline' desc
 limit 2
