-- Create new versions of the attachments of a changed agent, except those that have one already.  A
-- broken attachment gets its version when it is resumed.
update agent.attachment
   set version = version + 1
 where tenant = agent.current_tenant() and agent = any (%(agents)s) and name <> all (%(but)s) and agent_internal.drift_of(definition) is null
