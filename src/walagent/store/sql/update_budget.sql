-- Set the given fields of a budget.
update agent.budget b
   set (agent, attachment, model, asker, period, max_cost, max_tokens, max_cost_per_question, max_tokens_per_question,
        on_exceeded, source)
     = (select r.agent, r.attachment, r.model, r.asker, r.period, r.max_cost, r.max_tokens, r.max_cost_per_question,
               r.max_tokens_per_question, r.on_exceeded, r.source
          from jsonb_populate_record(b, %(fields)s) r)
 where b.tenant = agent.current_tenant() and b.name = %(name)s
