-- What is there now, whatever the day had.
counts as (select * from agent_internal.present_counts)
