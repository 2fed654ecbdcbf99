-- Nobody but the owner has what was just created: grants.sql says who else does.
revoke all on schema agent, agent_internal, agent_call from public;
revoke all on all tables in schema agent, agent_internal from public;
revoke all on all functions in schema agent, agent_internal from public;
grant usage on schema agent_signed to public;
