-- key: name
-- The models that agents of the tenant can name.
select m.name, min(m.model_id) as model_id, min(m.input_price) as input_price, min(m.output_price) as output_price
  from agent.model m
 where m.tenant is null or m.tenant = agent.current_tenant()
 group by m.name
 order by m.name
 limit 500
