-- What a person must act on, the most urgent first: 1 stands still, 2 will be lost, 3 costs; 4 can wait.  After _counts.
-- What concerns the server as a whole is the default tenant's.
place as (
    select case when pg_catalog.pg_is_in_recovery() then pg_catalog.pg_last_wal_replay_lsn()
                else pg_catalog.pg_current_wal_lsn() end as lsn),
kept as (
    select s.slot_name::text as slot, s.active, s.wal_status, s.temporary, c.slot is not null as is_own, c.end_lsn,
           pg_catalog.pg_wal_lsn_diff(p.lsn, s.restart_lsn)::bigint as retained,
           greatest(s.safe_wal_size, 0) as safe,
           pg_catalog.pg_wal_lsn_diff(p.lsn, coalesce(s.confirmed_flush_lsn, s.restart_lsn))::bigint as lag
      from pg_catalog.pg_replication_slots s
           cross join place p
           left join agent.checkpoint c on c.slot = s.slot_name and c.abandoned_at is null
     where s.database = current_database() or s.slot_type = 'physical'),
near as (
    select k.*, k.wal_status <> 'lost' and k.retained >= 0.8 * (k.retained + k.safe) as is_near from kept k),
-- Others' sessions have no names and times without pg_read_all_stats.
holder as (
    select a.pid, pg_catalog.format('select pg_terminate_backend(%%s);', a.pid) as ends, concat_ws(' ', 'pid ' || a.pid || ',', nullif(a.application_name, ''), 'as ' || a.usename || ',', a.state) as who, a.xact_start as since
      from pg_catalog.pg_stat_activity a where a.backend_xid is not null
    union all
    select null, pg_catalog.format('rollback prepared %%L;', p.gid), 'prepared transaction ' || p.gid, p.prepared from pg_catalog.pg_prepared_xacts p
    order by since nulls last limit 1),
budget as (
    select b.tenant, b.name, b.waiting, b.resets_at, b.on_exceeded,
           greatest((b.spent_cost + b.reserved_cost) / nullif(b.max_cost, 0), (b.spent_tokens + b.reserved_tokens)::numeric / nullif(b.max_tokens, 0)) as part
      from agent.budget_overview b),
-- The newest of a day, and only if they can matter: each process looks every 30 s.
failing as (
    select f.* from agent_internal.failure f
     where f.state in ('failed', 'dead') and f.finished_at > now() - interval '1 day' and exists (select from agent.issue where state = 'resolved')
     order by f.finished_at desc limit 10000),
problem (urgency, kind, tenant, subject, text, detail, fix, since) as (
    select 1, 'reader', 'default', null, 'No process reads the WAL', 'What is committed waits in the WAL.', 'walagent run',
           (select max(c.updated_at) from agent.checkpoint c where c.abandoned_at is null)
     where not exists (select from kept where is_own and active)
       and not exists (select from kept where is_own and wal_status = 'lost')
    union all
    select 1, 'slot', 'default', k.slot, pg_catalog.format('Slot %%s is lost: changes since %%s cannot be read', k.slot, k.end_lsn),
           'The server has removed WAL that it needs. Runs go on, new changes are not read.', 'walagent wal resync', null
      from kept k where k.is_own and k.wal_status = 'lost'
    union all
    select 1, 'attachment', a.tenant, a.name, pg_catalog.format('%%s has stopped', a.name), a.paused_reason, 'walagent agents resume ' || case when a.name ~ '^[[:alnum:]_.-]+$' then a.name else '''' || replace(a.name, '''', '''\''''') || '''' end, null
      from agent.attachment a where a.paused and a.paused_reason is not null and a.paused_by is null
    union all
    select 1, 'review', 'default', null, pg_catalog.format('%%s %%s', n, case when n = 1 then 'run has an unknown outcome' else 'runs have an unknown outcome' end),
           'A call was started, and its worker stopped before the answer.', 'walagent runs list --state needs_review', null
      from (select count(*) as n from agent.run where state = 'needs_review') r where n > 0
    union all
    select 1, 'worker', 'default', null, pg_catalog.format('%%s %%s, and no worker takes runs', f.pending, case when f.pending = 1 then 'run is pending' else 'runs are pending' end), null, 'walagent run', null
      from counts f where f.workers = 0 and f.pending > 0
    union all
    select 2, 'slot', 'default', n.slot, pg_catalog.format('Slot %%s keeps %%s of %%s: %%s until it is lost', n.slot, pg_catalog.pg_size_pretty(n.retained),
                             pg_catalog.pg_size_pretty(n.retained + n.safe), pg_catalog.pg_size_pretty(n.safe)),
           case when n.lag > n.retained / 2 then pg_catalog.format('Its reader is %%s behind.', pg_catalog.pg_size_pretty(n.lag))
                else coalesce((select pg_catalog.format('Its reader is %%s behind; a transaction that is open holds it: %%s.', pg_catalog.pg_size_pretty(n.lag), h.who) from holder h),
                              'Its reader is not behind: a transaction that was open held it.') end,
           (select h.ends from holder h where n.lag <= n.retained / 2),
           (select h.since from holder h where n.lag <= n.retained / 2)
      from near n where n.is_own and n.is_near
    union all
    select 2, 'gap', 'default', null, pg_catalog.format('%%s %%s for a decision', f.gaps, case when f.gaps = 1 then 'gap waits' else 'gaps wait' end),
           'Changes may not have been read.', 'walagent wal resync', (select min(g.found_at) from agent.gap g where g.resolved_at is null)
      from counts f where f.gaps > 0
    union all
    select case when b.part < 1 or b.on_exceeded = 'warn' then 4 else 3 end, 'budget', b.tenant, b.name,
           pg_catalog.format('Budget %%s is at %%s %%%%', b.name, pg_catalog.round(100 * b.part)),
           case when b.waiting > 0 then b.waiting || ' runs wait' || coalesce(' until ' || pg_catalog.to_char(b.resets_at, 'YYYY-MM-DD HH24:MI TZ'), ', and it never begins again') || '.' end,
           'walagent agents budgets', null
      from budget b where b.part >= 0.8
    union all
    select 4, 'foreign', 'default', n.slot, case when n.wal_status = 'lost' then pg_catalog.format('Slot %%s of somebody else is lost', n.slot)
                              else pg_catalog.format('Slot %%s of somebody else keeps %%s of WAL%%s', n.slot, pg_catalog.pg_size_pretty(n.retained),
                                                     case when n.active then '' else ', and nobody reads it' end) end,
           'walagent does not own it.', null, null
      from near n
     where not n.is_own and not n.temporary
       and (n.wal_status = 'lost' or n.is_near or not n.active and n.retained > pg_catalog.pg_size_bytes('1 GB'))
    union all
    select 4, 'regression', i.tenant, i.agent, pg_catalog.format('%%s fails again: %%s', i.agent, pg_catalog.left(i.reason, 120)),
           pg_catalog.format('%%s had resolved it.', i.changed_by), 'walagent runs list --state failed', i.since
      from agent.issue i
     where i.state = 'resolved' and exists (
               select from failing f
                where (f.tenant, f.agent, f.sqlstate, f.reason) = (i.tenant, i.agent, i.sqlstate, i.reason) and f.finished_at > i.since
                  and case i.resolved_in when 'present' then f.replaced_at > i.since is not false
                                         when 'next' then f.made_at > i.since is not false else true end)
    union all
    select 4, 'approval', 'default', null, pg_catalog.format('%%s %%s within the hour', n, case when n = 1 then 'call that waits for a person expires' else 'calls that wait for a person expire' end),
           null, 'walagent approvals list', first
      from (select count(*) as n, min(p.expires_at) as first from agent.approval p where p.state = 'pending' and p.expires_at < now() + interval '1 hour') e where n > 0)
