-- Register a tool over HTTP as its file declares it.
insert into agent.tool as t (name, kind, target, description, input_schema, effect, approval, timeout_seconds, http, source)
select %(name)s, 'http', r.target, r.description, r.input_schema, coalesce(r.effect, 'transactional'), r.approval,
       r.timeout_seconds, r.http, 'file'
  from jsonb_populate_record(null::agent.tool, %(fields)s) r
on conflict (scope, name) do update
   set (target, description, input_schema, effect, approval, timeout_seconds, http, source)
     = (excluded.target, excluded.description, excluded.input_schema, excluded.effect, excluded.approval,
        excluded.timeout_seconds, excluded.http, excluded.source)
 where t.kind = 'http'
returning name
