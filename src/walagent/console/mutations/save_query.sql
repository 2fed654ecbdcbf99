-- parameters: question, sql
-- Keep a statement that a person found right, as an example for later questions of the same principal.
insert into agent.verified_query (question, sql) values (%(question)s, %(sql)s)
    on conflict on constraint one_statement_for_a_question do update set sql = excluded.sql, saved_at = agent_internal.now()
returning id
