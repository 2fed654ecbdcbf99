-- role: admin
-- as: login
-- parameters: name, agent, attachment, model, asker, max_cost, max_tokens, period, on_exceeded
-- Make a budget of the caller's tenant; it counts what is spent from now on.
insert into agent.budget (name, agent, attachment, model, asker, max_cost, max_tokens, period, on_exceeded)
values (%(name)s, nullif(%(agent)s, ''), nullif(%(attachment)s, ''), nullif(%(model)s, ''), nullif(%(asker)s, '')::name,
        nullif(%(max_cost)s, '')::numeric, nullif(%(max_tokens)s, '')::bigint, %(period)s, %(on_exceeded)s)
returning name
