-- Three attachments with runs in most states.
create schema forum;
create table forum.posts_of_all_customers (id uuid primary key, state text, body text);
create role screens_app nologin;
grant select, update on support_tickets, forum.posts_of_all_customers to screens_app;
grant usage on schema forum to screens_app;

select agent.attach('support_tickets', 'model=gpt-4o, name=support, run_as=screens_app,'
    ' tools=[refund_user, escalate_to_human], bind=[ticket_id=id], approve=[refund_user], writes=[status],'
    ' when="new.customer <> ''internal'' and new.issue is not null and length(new.issue) > 3"');
select agent.attach('forum.posts_of_all_customers', 'model=gpt-4o, name=moderate_user_generated_content,'
    ' on=[insert, update], run_as=screens_app, writes=[state]');
select agent.attach('support_tickets', 'model=gpt-4o, name=translate, run_as=screens_app, writes=[category]');
insert into agent.agent (name, model, system_prompt) values ('unused', 'gpt-4o', '');
insert into agent.budget (name, period, max_cost) values ('everything', 'month', 200);
insert into agent.budget (name, agent, period, max_tokens, on_exceeded) values ('support', 'support', 'day', 2000000, 'fail');
insert into support_tickets (customer, issue) select 'grace', 'I want a refund.' from generate_series(1, 4);
delete from agent.model where name not in ('gpt-4o', 'embedded/e5', 'gemini-2.5-flash', 'llama3.3:70b');
set session_replication_role = replica;  -- states and times as they are, without the steps to them
update agent.attachment set paused = true, paused_reason = 'column "language" of public.support_tickets does'
    ' not exist; it is used by the condition and by bind of the tool escalate_to_human' where name = 'translate';

insert into agent.run (reason, queue_id, attachment_id, attachment_version, change, key, state, attempt,
                       tokens, cost, error, lease_expires_at, next_attempt_at, created_at, finished_at)
select 'manual', a.id, a.id, 1,
       jsonb_build_object('op', op, 'schema', schema, 'table', tab, 'new', jsonb_build_object(
           'id', key, 'issue', 'I was charged twice and want my money back, as I wrote to you three times.',
           'status', 'open', 'customer', 'grace')),
       key, state::agent.run_state, attempt, tokens, cost, jsonb_build_object('reason', error),
       case when state = 'running' then now() end, case when state = 'waiting_retry' then now() end,
       now() - age::interval,
       case when state in ('succeeded', 'failed', 'dead', 'cancelled', 'skipped') then now() - age::interval end
  from (values
    ('support', 'insert', 'public', 'support_tickets', '1', 'succeeded', 1, 12345, 0.0382, null, '40 days'),
    ('moderate_user_generated_content', 'update', 'forum', 'posts_of_all_customers',
     'f3d15830-f275-40e0-8af7-53a0f9cec812', 'succeeded', 1, 2000, 0.0019, null, '3 days 1 hour'),
    ('moderate_user_generated_content', 'insert', 'forum', 'posts_of_all_customers',
     'cbeaf8b6-2458-4658-a844-fb5fb1026618', 'dead', 5, 0, null,
     'openai answered 400: the request was rejected because the organization has been disabled; see'
     ' https://example.com/errors/organization_disabled for what to do about it', '30 hours 30 minutes'),
    ('support', 'insert', 'public', 'support_tickets', '3', 'waiting_retry', 2, 0, null,
     'openai: rate limit reached; next attempt in 20 s', '4 hours 30 minutes'),
    ('support', 'insert', 'public', 'support_tickets', '4', 'waiting_approval', 1, 900, 0.002, null, '3 hours 30 minutes'),
    ('translate', 'insert', 'public', 'support_tickets', '4', 'pending', 0, 0, null, null, '3 hours 30 minutes'),
    ('support', 'insert', 'public', 'support_tickets', '2', 'running', 1, 900, 0.002, null, '2 hours 30 minutes')
  ) r (name, op, schema, tab, key, state, attempt, tokens, cost, error, age) join agent.attachment a using (name)
 order by age::interval desc, name;
insert into agent.step (run_id, seq, kind, content, input_tokens, cost) values
    (5, 0, 'reply', '{"parts": [{"text": "Let me see what was charged, and when."}, {"call": "c1", "name":'
     ' "refund_user", "arguments": {"amount": 99, "reason": "charged twice"}}], "stop": "tool",'
     ' "model": "gpt-4o-2024-11-20"}', 900, 0.002),
    (5, 1, 'approval', '{"approval": 1, "call_id": "c1", "tool": "refund_user"}', null, null);
insert into agent.step (run_id, seq, kind, content) values
    (1, 0, 'note', '{"text": "A tool call is required here.", "correction": true}'),
    (2, 0, 'note', '{"fallback": "gemini-2.5-flash", "for": "gpt-4o", "why": "503"}'),
    (2, 1, 'note', '{"text": "A tool call is required here.", "correction": true}');
insert into agent.approval (run_id, call_id, tool, arguments, digest, run_as, asked_at, expires_at) values
    (5, 'c1', 'refund_user', '{"amount": 99, "reason": "The customer was charged twice for the same order of'
     ' January, which the payment provider confirms; a refund of one of the two charges is due."}', '', 'screens_app',
     now() - interval '3 hours 30 minutes', now() + interval '6 days 12 hours');
insert into agent.row_change (run_id, commit_lsn, ordinal, step, xid, committed_at, relation, schema_name, table_name, op, source,
                              key, columns, before, after, omitted, rows) values
    (1, '0/10', 0, 1, 7, now() - interval '40 days', 'support_tickets'::regclass, 'public', 'support_tickets', 'update', 'statement',
     '{"id": "1"}', '{status}', '{"id": "1", "status": "open"}', '{"id": "1", "status": "closed"}', '{}', 1),
    (2, '0/20', 0, 1, 8, now() - interval '3 days 1 hour', 'forum.posts_of_all_customers'::regclass, 'forum', 'posts_of_all_customers',
     'update', 'trigger', '{"id": "f3d15830-f275-40e0-8af7-53a0f9cec812"}', null, null,
     '{"id": "f3d15830-f275-40e0-8af7-53a0f9cec812", "state": "hidden", "body": "This is an advertisement that was posted a hundred times."}', '{}', 1),
    (2, '0/20', 1, 1, 8, now() - interval '3 days 1 hour', null, 'forum', 'words', 'more', 'trigger', null, null, null, null, '{}', 2500);

insert into agent.dataset (name, attachment, relation, columns, source, made_by, made_at)
values ('golden', 'support', 'public.support_tickets', '[]', 'runs', 'ada', now() - interval '3 days');
insert into agent.dataset_case (dataset_id, key, change, run_id, expected, labelled_by, labelled_at)
select d.id, n::text,
       jsonb_build_object('op', 'insert', 'schema', 'public', 'table', 'support_tickets', 'new', jsonb_build_object(
           'id', n, 'customer', 'ada', 'issue', 'The app is slow whenever I open the list of invoices of the last year.')),
       n, e, case when e is not null then 'ada' end, case when e is not null then now() end
  from agent.dataset d
       cross join (values (1, '{"tools": ["update_row"], "values": {"category": "bug"}}'::jsonb), (2, null), (3, '{"result": "Done."}'))
           as c (n, e);
insert into agent.evaluation (attachment, agent, model, judge, dataset, draft, planned, made_by, started_at, held_until, ended_at, error)
values ('support', 'support', 'claude-haiku-4-5', null, 'golden', '{}', 3, 'ada', now() - interval '2 hours', now(), now(), null),
       ('support', 'support', 'gpt-4o', 'claude-haiku-4-5', 'golden', '{"model": "gpt-4o"}', 3, 'ada', now() - interval '1 hour', now(), now(), null),
       ('support', 'support', 'gpt-4o', null, null, '{}', 50, 'ada', now() - interval '1 minute', now(), now(),
        'budget "support" exhausted: 2000000 of 2000000 tokens spent, next call needs up to 5120; resets at 2026-01-02 00:00 UTC');
insert into agent.evaluation_case (evaluation_id, number, run_id, case_id, key, recorded, candidate, agrees, expected, was_right, is_right, verdict)
select e.id, c.n, c.n, c.n, c.n::text, r.recorded,
       r.recorded || jsonb_build_object('calls', jsonb_build_array(jsonb_build_object(
           'tool', 'update_row', 'arguments', jsonb_build_object('category', case when c.n < e.id then 'billing' else 'bug' end),
           'state', 'done', 'reads', false)), 'changes', jsonb_build_array(jsonb_build_object(
           'table', 'public.support_tickets', 'operation', 'update', 'columns', '["category"]'::jsonb, 'before', '{"id": "1", "category": null}'::jsonb, 'after', '{"id": "1", "category": "bug"}'::jsonb)),
           'not_called', '[]'::jsonb, 'cost', 0.0021),
       c.n >= e.id, case when c.n = 1 then '{"values": {"category": "bug"}}'::jsonb end, case when c.n = 1 then true end,
       case when c.n = 1 then e.id = 1 end,
       case when e.judge is not null and c.n < e.id then '{"right": "recorded", "reason": "The ticket says that the app is slow, which is a defect.", "cost": 0.0004}'::jsonb end
  from agent.evaluation e
       cross join (values (1), (2), (3)) as c (n)
       cross join lateral (select '{"state": "succeeded", "result": "Done.", "error": null, "tokens": 1000, "cost": 0.0019, "seconds": 1.25,
                                    "calls": [{"tool": "update_row", "arguments": {"category": "bug"}, "state": "done", "reads": false}]}'::jsonb) r (recorded)
 where e.error is null;
