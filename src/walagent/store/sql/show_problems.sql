-- What a person must act on, and what can wait.
select p.* from agent_internal.problems() p order by p.urgency, p.since nulls last, p.text
