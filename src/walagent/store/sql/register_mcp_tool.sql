-- Register a tool of an MCP server; the accepted form is kept, unless this form is accepted now.
insert into agent.tool as t (name, kind, target, description, input_schema, effect, timeout_seconds, fingerprint)
select %(name)s, 'mcp', r.target, r.description, r.input_schema, r.effect, r.timeout_seconds, r.fingerprint
  from jsonb_populate_record(null::agent.tool, %(row)s) r
 where coalesce(%(accepted)s::text, r.fingerprint) = r.fingerprint
    or exists (select from agent.tool where name = %(name)s and scope = '')
on conflict (scope, name) do update
   set effect = excluded.effect,
       timeout_seconds = excluded.timeout_seconds,
       description = case when excluded.fingerprint = %(accepted)s then excluded.description else t.description end,
       input_schema = case when excluded.fingerprint = %(accepted)s then excluded.input_schema else t.input_schema end,
       fingerprint = case when excluded.fingerprint = %(accepted)s then excluded.fingerprint else t.fingerprint end
 where t.kind = 'mcp' and t.target = excluded.target
returning fingerprint
