-- parameters: name
-- Remove a saved filter, whose saver one is, or as an admin.
delete from agent.saved_filter where name = %(name)s
returning name
