-- role: developer
-- as: login
-- parameters: agent, base, model, system_prompt, max_steps, max_tokens, max_cost, max_seconds, max_attempts, max_output_tokens
-- Make a new version of an agent, if nobody has made one since *base*.
update agent.agent g
   set model = %(model)s, system_prompt = %(system_prompt)s, max_steps = %(max_steps)s::integer,
       max_tokens = nullif(%(max_tokens)s, '')::bigint, max_cost = nullif(%(max_cost)s, '')::numeric,
       max_seconds = %(max_seconds)s::integer, max_attempts = %(max_attempts)s::integer,
       max_output_tokens = nullif(%(max_output_tokens)s, '')::integer
 where g.tenant = agent.current_tenant() and g.name = %(agent)s and g.version = %(base)s::integer
returning g.version
