-- Lock the tables that intake writes; agent.checkpoint is locked by its row.
lock table agent.run, agent_internal.merged_change, agent.attachment_version, agent_internal.backfill_seen
  in row exclusive mode
