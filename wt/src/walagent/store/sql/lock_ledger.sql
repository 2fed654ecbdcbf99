-- The locks of what taking in writes; agent.progress is locked by its row.
lock table agent.run, agent.merged_change, agent.attachment_version, agent.backfill_seen
  in row exclusive mode
