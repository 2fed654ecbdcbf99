-- Make the new version that a changed agent means, of the attachments that have none yet.
update agent.attachment
   set version = version + 1
 where agent = any (%(agents)s) and name <> all (%(but)s)
