-- Agents whose attachments use an earlier form of a tool of an MCP server, or over HTTP.
select distinct a.agent
  from agent.attachment a
       cross join lateral jsonb_array_elements(a.definition -> 'tools') d
       join agent.tool t on t.name = d ->> 'name' and t.scope = '' and t.kind = d ->> 'kind'
 where a.tenant = agent.current_tenant() and t.kind in ('mcp', 'http')
   and (d ->> 'fingerprint' is distinct from t.fingerprint
        or t.kind = 'http' and d ->> 'version' is distinct from t.version::text
        or d ->> 'effect' is distinct from t.effect
        or (d ->> 'timeout')::numeric is distinct from t.timeout_seconds)
 order by 1
