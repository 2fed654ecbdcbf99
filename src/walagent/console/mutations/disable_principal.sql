-- role: admin
-- parameters: name
-- Refuse a principal, its login and its tokens from now on.
select agent.disable_principal(%(name)s)
