-- Set the given fields of a model; the others keep their values.
update agent.model m
   set (provider, model_id, base_url, credential, tool_mode, context_window, max_output_tokens, timeout_seconds,
        input_price, cached_input_price, cache_write_price, output_price, parameters, enabled, reasons,
        cache_min_tokens, dimensions, price_bands, flex_factor, batch_factor)
     = (select r.provider, r.model_id, r.base_url, r.credential, r.tool_mode, r.context_window, r.max_output_tokens,
               r.timeout_seconds, r.input_price, r.cached_input_price, r.cache_write_price, r.output_price, r.parameters, r.enabled,
               r.reasons, r.cache_min_tokens, r.dimensions, r.price_bands, r.flex_factor, r.batch_factor
          from jsonb_populate_record(m, %(fields)s) r)
 where m.name = %(name)s
   and m.scope = (select max(o.scope) from agent.model o where o.name = %(name)s and o.scope in ('', agent.current_tenant()))
