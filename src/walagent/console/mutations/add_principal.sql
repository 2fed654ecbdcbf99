-- role: admin
-- parameters: name, kind, display_name, email
-- Add a person or a service, which has no role yet.
select agent.create_principal(%(name)s, %(kind)s, null, %(display_name)s, nullif(%(email)s, ''))
