-- role: admin
-- parameters: principal, label, scopes, days
-- Create a token, which is shown once; scopes: with commas, none: all that its principal may do.
select jsonb_build_object('id', t.id, 'token', t.token)
  from agent.create_token(%(principal)s, %(label)s, string_to_array(%(scopes)s, ','),
                          now() + make_interval(days => nullif(%(days)s, '')::integer)) t
