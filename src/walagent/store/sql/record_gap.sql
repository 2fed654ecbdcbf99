-- Write down that WAL is lost to us, from where the ledger ends or before.
insert into agent.gap (slot, generation, from_lsn, to_lsn, since, reason)
select p.slot, p.generation, least(p.end_lsn, %(from)s::pg_lsn), %(to)s::pg_lsn,
       least(p.committed_at, %(since)s::timestamptz), %(reason)s
  from agent.progress p
 where p.slot = %(slot)s
on conflict (slot, generation) where resolved_at is null do nothing
