-- Insert a persona; every field is given.
insert into agent.persona (name, system_prompt, traits, rules, model, parameters, max_steps, max_tokens, max_cost, max_seconds,
        max_output_tokens, requests_per_minute)
select %(name)s, r.system_prompt, r.traits, r.rules, r.model, r.parameters, r.max_steps, r.max_tokens, r.max_cost, r.max_seconds,
       r.max_output_tokens, r.requests_per_minute
  from jsonb_populate_record(null::agent.persona, %(fields)s) r
