-- role: admin
-- parameters: name
-- Let a disabled principal act again.
select agent.enable_principal(%(name)s)
