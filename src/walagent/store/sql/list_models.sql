-- Models, with the number of agents that use them.  Prices are in US dollars per million tokens.
select m.name,
       m.provider,
       m.model_id,
       m.base_url,
       m.credential,
       m.tool_mode,
       m.context_window,
       m.max_output_tokens,
       m.timeout_seconds,
       m.input_price::float8,
       m.cached_input_price::float8,
       m.cache_write_price::float8,
       m.output_price::float8,
       m.parameters,
       m.enabled,
       (select count(*) from agent.agent g where g.model = m.name and g.model_scope = m.scope) as agents
  from agent.model m
 where m.scope in ('', agent.current_tenant())
 order by m.name
