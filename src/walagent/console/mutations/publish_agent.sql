-- role: developer
-- as: login
-- parameters: agent, base, model, system_prompt, max_steps, max_tokens, max_cost, max_seconds, max_attempts, max_output_tokens
-- Make a new version of an agent, if nobody has made one since *base*.
with present as materialized (
    select g.name from agent.agent g
     where g.tenant = agent.current_tenant() and g.name = %(agent)s and g.version = %(base)s::integer
       for update)
select agent_internal.change_agent(name, jsonb_build_object(
           'model', %(model)s::text, 'system_prompt', %(system_prompt)s::text, 'max_steps', %(max_steps)s::text,
           'max_tokens', nullif(%(max_tokens)s, ''), 'max_cost', nullif(%(max_cost)s, ''), 'max_seconds', %(max_seconds)s::text,
           'max_attempts', %(max_attempts)s::text, 'max_output_tokens', nullif(%(max_output_tokens)s, '')))
  from present
