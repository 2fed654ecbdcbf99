-- The use of each budget: the spent and the reserved part of its scarcer limit.
select o.name,
       greatest(o.spent_cost / o.max_cost, o.spent_tokens / o.max_tokens::numeric)::float8,
       greatest(o.reserved_cost / o.max_cost, o.reserved_tokens / o.max_tokens::numeric)::float8,
       o.waiting,
       to_char(o.resets_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI "UTC"')
  from agent.budget_overview o
 order by o.name
