comment on table agent.session is 'Sessions: conversations about the database; a question can refer to earlier ones';
comment on column agent.session.id is 'Name of the session';
comment on column agent.session.owner is 'Login that began it; only this login can read or continue it';
comment on column agent.session.made_at is 'Time of creation';
comment on column agent.session.asked_at is 'Time of the last question';
comment on column agent.session.summary is 'Summary of the earlier questions, if they are too long for a prompt';
comment on column agent.session.summary_upto is 'Last question that the summary covers';
comment on column agent.session.tenant is 'Tenant of its owner';

comment on table agent.question is 'Questions in natural language; the run has plan, statements and results as steps';
comment on column agent.question.id is 'Question ID';
comment on column agent.question.session_id is 'Session that it belongs to';
comment on column agent.question.text is 'The question';
comment on column agent.question.options is 'Options of the command that asked';
comment on column agent.question.asked_at is 'Time of the question';
comment on column agent.question.run_id is 'Run that answers it; NULL: removed';
comment on column agent.question.answer is '{"status", "text", "sql", "assumptions", "caveats"}; NULL: not answered yet. Kept when the run is removed';
comment on column agent.question.tenant is 'Tenant of the session';

comment on table agent.verified_query is 'Questions with a statement that a person has verified; examples for the planner';
comment on column agent.verified_query.id is 'Example ID';
comment on column agent.verified_query.owner is 'Role that can change it; used for questions of this role and its members';
comment on column agent.verified_query.question is 'The question';
comment on column agent.verified_query.sql is 'Statement that answers it';
comment on column agent.verified_query.words is 'Words of the question, for the search';
comment on column agent.verified_query.saved_at is 'Time of the last save';
comment on column agent.verified_query.tenant is 'Tenant of its owner';

comment on table agent.glossary is 'Terms of the business with their meaning, for the planner: churned: no invoice for 90 days';
comment on column agent.glossary.owner is 'Role that can change it; used for questions of this role and its members';
comment on column agent.glossary.term is 'The term';
comment on column agent.glossary.meaning is 'What it means in this database';
comment on column agent.glossary.tenant is 'Tenant of its owner';

comment on table agent_internal.schema_index is 'The application''s schema as a role can read it; read again when the fingerprint changes, and daily';
comment on column agent_internal.schema_index.role is 'Role that it was read as: the analyst';
comment on column agent_internal.schema_index.fingerprint is 'Digest of the catalog rows and settings that it was made from';

comment on table agent_internal.schema_table is 'Tables and views of the application, as described to the planner';
comment on column agent_internal.schema_table.description is 'Columns, keys, comments, enum and CHECK values, and common values of columns that can be shown';
comment on column agent_internal.schema_table.vector is 'Embedding of the description; with ask.vectors';
comment on column agent_internal.schema_table.vector_of is 'Digest of the text that the vector was made from';
