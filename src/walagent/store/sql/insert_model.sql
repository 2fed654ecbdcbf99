-- Insert a model with defaults, unless there is one; update_model then sets the given fields.
insert into agent.model (name, provider, model_id)
select %(name)s, r.provider, r.model_id
  from jsonb_populate_record(null::agent.model, %(fields)s) r
 where not exists (select from agent.model o where o.name = %(name)s and o.scope in ('', agent.current_tenant()))
