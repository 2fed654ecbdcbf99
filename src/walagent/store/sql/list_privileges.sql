-- The privileges of capabilities, before they change.
select coalesce(jsonb_agg(to_jsonb(p)), '[]') from agent_internal.privilege p
