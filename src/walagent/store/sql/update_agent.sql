-- Set the given fields of an agent.
update agent.agent g
   set (model, system_prompt, tools, tool_choice, examples, parameters, max_steps, max_tokens, max_cost, max_seconds,
        max_attempts, max_output_tokens, finish,
                         persona, persona_version, requests_per_minute, thinking_visible, pause_before_tool, pause_after_tool,
        approve_from, four_eyes)
     = (select r.model, r.system_prompt, r.tools, r.tool_choice, r.examples, r.parameters, r.max_steps, r.max_tokens,
               r.max_cost, r.max_seconds, r.max_attempts, r.max_output_tokens, r.finish,
       r.persona, r.persona_version, r.requests_per_minute, r.thinking_visible, r.pause_before_tool, r.pause_after_tool,
       r.approve_from, r.four_eyes
          from jsonb_populate_record(g, %(fields)s) r)
 where g.tenant = agent.current_tenant() and g.name = %(name)s
