-- The locks of what ingesting writes; agent.checkpoint is locked by its row.
lock table agent.run, agent.merged_change, agent.attachment_version, agent.backfill_seen
  in row exclusive mode
