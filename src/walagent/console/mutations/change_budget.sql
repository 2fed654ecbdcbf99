-- role: admin
-- as: login
-- parameters: name, base, max_cost, max_tokens, period, on_exceeded
-- Change a budget, if nobody has changed it since version *base*; runs that wait for it are tried again.
update agent.budget b
   set max_cost = nullif(%(max_cost)s, '')::numeric, max_tokens = nullif(%(max_tokens)s, '')::bigint,
       period = %(period)s, on_exceeded = %(on_exceeded)s
 where b.tenant = agent.current_tenant() and b.name = %(name)s and b.version = %(base)s::integer
returning b.version
