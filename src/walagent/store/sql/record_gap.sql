-- Record a gap that starts at or before the end of the checkpoint.  The lock waits for a resync that
-- is about to open the checkpoint's next generation.
with lost as (
    select * from agent.checkpoint where slot = %(slot)s and generation = %(generation)s for share
)
insert into agent.gap (slot, generation, from_lsn, to_lsn, since, reason)
select slot, generation, least(end_lsn, %(from)s::pg_lsn), coalesce(%(to)s::pg_lsn, pg_current_wal_lsn()),
       least(committed_at, %(since)s::timestamptz), %(reason)s
  from lost
on conflict (slot, generation) where resolved_at is null do nothing
