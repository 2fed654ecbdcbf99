-- Register a tool of a Python function, or update its description.
insert into agent.tool as t (name, kind, target, description, input_schema, effect)
select %(name)s, 'python', r.target, r.description, r.input_schema, r.effect
  from jsonb_populate_record(null::agent.tool, %(row)s) r
on conflict (scope, name) do update
   set (target, description, input_schema, effect)
     = (excluded.target, excluded.description, excluded.input_schema, excluded.effect)
 where t.kind = 'python'
