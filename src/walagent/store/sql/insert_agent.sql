-- Insert an agent; every field is given.
insert into agent.agent (name, model, system_prompt, tools, tool_choice, examples, parameters, max_steps, max_tokens,
                         max_cost, max_seconds, max_attempts, max_output_tokens, finish)
select %(name)s, r.model, r.system_prompt, r.tools, r.tool_choice, r.examples, r.parameters, r.max_steps, r.max_tokens,
       r.max_cost, r.max_seconds, r.max_attempts, r.max_output_tokens, r.finish
  from jsonb_populate_record(null::agent.agent, %(fields)s) r
