select
-- include: _approval
,
       coalesce((select jsonb_object_agg(b.argument, b.source)
                   from jsonb_array_elements(v.definition -> 'tools') t
                        cross join jsonb_each_text(t -> 'bind') b (argument, source)
                  where t ->> 'name' = p.tool), '{}') as bound,
       -- As text, and bound ones first: a browser would round large numbers, and a decision sees them all.
       (select coalesce(jsonb_agg(jsonb_build_object('name', e.name, 'text', coalesce(e.value #>> '{}', 'null'),
                                                     'kind', jsonb_typeof(e.value), 'bound', e.source) order by e.source is null, e.name), '[]')
          from (select b.argument as name, c.content -> b.source as value, b.source
                  from jsonb_array_elements(v.definition -> 'tools') t cross join jsonb_each_text(t -> 'bind') b (argument, source)
                 where t ->> 'name' = p.tool
                union all
                select g.key, g.value, null from jsonb_each(coalesce(p.edited, p.arguments)) g
                 where not exists (select from jsonb_array_elements(v.definition -> 'tools') t
                                    where t ->> 'name' = p.tool and t -> 'bind' ? g.key)) e) as shown,
       jsonb_pretty(p.arguments) as arguments_text,
       -- Of a function as it declares them: JSON has one type of numbers.
       coalesce((select jsonb_object_agg(a.name, coalesce(a.schema ->> 'format', a.schema ->> 'type', a.schema -> 'type' ->> 0))
                   from jsonb_array_elements(v.definition -> 'tools') t
                        cross join jsonb_each(t -> 'input_schema' -> 'properties') a (name, schema)
                  where t ->> 'name' = p.tool), '{}')
           || coalesce((select jsonb_object_agg(a ->> 'name', a ->> 'type')
                          from jsonb_array_elements(v.definition -> 'tools') t cross join jsonb_array_elements(t -> 'arguments') a
                         where t ->> 'name' = p.tool), '{}') as types,
       c.content,
       (select t ->> 'effect' from jsonb_array_elements(v.definition -> 'tools') t where t ->> 'name' = p.tool) as effect,
       (select t ->> 'target' from jsonb_array_elements(v.definition -> 'tools') t where t ->> 'name' = p.tool and t ->> 'kind' = 'sql') as function,
       (select string_agg(part ->> 'text', E'\n')
          from (select s.content from agent.step s
                 where s.run_id = p.run_id and s.kind = 'reply'
                   and s.content -> 'parts' @> jsonb_build_array(jsonb_build_object('call', p.call_id))
                 order by s.seq desc limit 1) said,
               jsonb_array_elements(said.content -> 'parts') part
         where part ? 'text') as said,
       agent.has_role('approver') and not (p.four_eyes and agent.current_principal() = any (p.requested_by)) as can_decide,
       exists (select from agent.tool t where t.name = p.tool and t.kind = 'builtin' and t.target = 'ask_human') as is_question
-- include: _approval_from
