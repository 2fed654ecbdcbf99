-- The schema of walagent: what it stores, who writes it, and what it promises.
--
-- An agent is a model with a prompt, tools and limits.  An attachment binds an agent to the changes of one
-- table.  The reader follows the write-ahead log (WAL) through a replication slot and inserts one run for each
-- change that matches an attachment.  A worker claims a run and executes it step by step: it sends the
-- transcript to the model, executes the tool calls of the reply, and records each step in the transaction of
-- the step's effects.  A question that a person asks of the database is a run, too.
--
-- Files, in the order in which they are applied; each noun is defined in one of them:
--
--   0001           this page, the two schemas, the clock, the principal
--   0002           models, with the built-in rows
--   0003           tools, agents, attachments and their versions, backfills: tables
--   0004           queues, runs, steps, workers: tables and states
--   0005           checkpoint and gaps
--   0006 .. 0009   checks of a definition: catalog, tools, conditions, attachments
--   0010           publications
--   0011           attach, change, pause and detach
--   0012           drift: what happens if the table of an attachment changes
--   0013 .. 0018   the life of a run: insert, claim, step, write-back, finish, tick
--   0019           approvals
--   0020           cancel, retry and resolve
--   0021           budgets
--   0022           questions
--   0023           retention
--   0024           views
--   0025           roles
--
-- How the tables relate ("1 : n" reads "one has many"):
--
--   model       1 : n  agent
--   agent       1 : n  attachment
--   attachment  1 : n  attachment_version   the frozen definition that runs are pinned to
--   attachment  1 : 1  queue                claims serve the queues in turn; a session has one, too
--   attachment  1 : n  backfill             runs on the rows that existed before
--   queue       1 : n  run
--   run         1 : n  step                 append-only; what a run does next follows from its steps alone
--   run         1 : n  approval             a tool call that waits for a person
--   run         1 : n  spend                a model call that is counted by a budget
--   session     1 : n  question             question 1 : 1 run
--   checkpoint  1 : n  gap                  WAL of the slot that was lost
--   gap         1 : n  gap_choice           what a person chose to do about it, by attachment
--
-- agent.run refers to its attachment without a foreign key: runs outlive attachments.
--
-- Who writes what:
--
--   the owner           everything.  Triggers with the owner's rights freeze versions, keep the queues and the
--                       publications in step, and continue runs after a decision.
--   grant_developer     agents and attachments: agent.attach(), or plain DML.  Checks run as triggers with
--                       the rights of the role that attaches.
--   grant_runner        the daemon: runs, steps, checkpoint, gaps, backfills, workers, spend, new approvals.
--   grant_approver      decisions: approve, reject, cancel, retry, resolve.
--   grant_asker         questions of its own sessions, verified queries and glossary terms of its own.
--   grant_viewer        nothing; it reads runs and steps, with the row data in them.
--
-- Promises, and what keeps each:
--
--   1. A change starts one run for an attachment, however often the WAL is read: run_once_per_change.
--   2. The checkpoint advances in the transaction that inserts the runs: agent_internal.ingest().
--   3. A step commits with its effects: agent_internal.record_step(), agent_internal.call_tool().
--   4. A worker that lost a lease commits nothing: agent_internal.fence() is part of each transaction.
--   5. Runs of one queue with equal ordering keys are executed one at a time, in order: agent_internal.claim_runs().
--   6. A budget is never exceeded by calls that were allowed: agent_internal.reserve().
--   The view agent.broken_invariant lists violations.
--
-- Schemas.  `agent` is the interface: functions that people call, tables that they read or insert into, views.
-- `agent_internal` is not an interface; it can change in any release.
--
-- Functions run in the transaction of their caller and commit nothing.  Lock order: approvals, runs (by ID),
-- queues (by ID), budget use (by budget), spend.  A claim locks queues first and waits for no run: it locks runs
-- with SKIP LOCKED only.
--
-- SQLSTATEs of walagent:
--
--   WA001  the lease is lost: another worker holds the run
--   WA002  cancellation of the run was requested
--   WA003  the state of the run does not allow this
--   WA004  the step already exists
--   WA005  the approval is not pending, or its arguments have changed
--   WA006  the role cannot decide this approval
--   WA007  a newer reader has the checkpoint
--   WA008  the role of an attachment cannot be assumed, or lacks a privilege on what the agent is shown; the
--          detail is the SQLSTATE of PostgreSQL
--   WA009  the attachment is broken: its table, key, role or tools have changed
--   WA010  invalid spec
--   WA011  invalid tool
--   WA012  invalid condition
--   WA013  invalid table, column or attachment
--   WA014  no such model
--   WA015  invalid budget
--
-- The role that applies these files owns the schemas.  It needs no superuser rights, only CREATE on the
-- database.  A constraint expresses what a constraint can; what must be atomic under contention is a function.
-- A later file revokes from PUBLIC what it creates, as 0025 does, and grants it in the functions of 0025.

create schema if not exists agent;
comment on schema agent is 'walagent: functions to call, tables to read or insert into, views';

create schema agent_internal;
comment on schema agent_internal is 'walagent: internals, not an interface; they can change in any release';

-- The only clock: of leases, backoff and expiry.  It is a function so that a test can replace it.  It returns the
-- start of the statement, not of the transaction: a claim that waited for a lock must not grant a lease that has
-- already aged.
create function agent_internal.now()
    returns timestamptz
    language sql
    stable
as $$ select statement_timestamp() $$;
comment on function agent_internal.now() is 'The clock of leases, retries and expiry';

-- The login, whatever role is set, also in functions with other rights.  One function, so that one place changes
-- if people are not logins of their own.
create function agent.current_principal()
    returns name
    language sql
    stable
as $$ select session_user $$;
comment on function agent.current_principal() is 'The principal of the caller: its login';
