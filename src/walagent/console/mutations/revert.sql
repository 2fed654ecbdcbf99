-- role: approver
-- parameters: run, dry_run, only_unchanged
-- Take back what a run changed; returns the ID of the run that does so.
select agent.revert(%(run)s::bigint, %(dry_run)s::boolean, %(only_unchanged)s::boolean)::text
