-- Insert a row, or update the given columns.
select agent_internal.write_row(%(of)s, %(name)s, %(fields)s, agent_internal.schemas_of_caller())
