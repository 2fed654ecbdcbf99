-- Make the new version that a changed agent means, of the attachments that have none yet.  Resuming
-- makes it of one that has lost its ground.
update agent.attachment
   set version = version + 1
 where agent = any (%(agents)s) and name <> all (%(but)s) and agent_internal.drift_of(definition) is null
