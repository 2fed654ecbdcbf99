comment on schema agent is 'walagent: functions to call, tables to read or insert into, views';
comment on schema agent_internal is 'walagent: internals, not an interface; they can change in any release';
comment on schema agent_call is 'The trampoline of each role that agents run as; closed to all roles but its owner';
comment on schema agent_signed is 'Functions that each role can call, and that only a signed request can use';

comment on table agent_internal.migration is 'Files of the schema that the database has, with their digests';
comment on column agent_internal.migration.name is 'File in migrations/';
comment on column agent_internal.migration.version is 'Version of walagent that applied it';

comment on table agent_internal.code_object is 'Functions, views and policies that the code of the schema has defined';

comment on table agent_internal.secret is 'The key that signs origin markers, so that a forged one is ignored';

comment on table agent_internal.lock is 'Locks between transactions of walagent: budget';

comment on table agent_internal.start_lock is 'Locked by transactions that start runs, and by those that insert or requeue older ones';

comment on table agent_internal.tick_lock is 'Locked by the transaction that ticks';

comment on table agent_internal.database is 'Identity of the database, which a copy of it does not match; one row';
comment on column agent_internal.database.id is 'Part of every idempotency key';
comment on column agent_internal.database.system_id is 'System identifier of the server; empty if its owner hides it';
comment on column agent_internal.database.oid is 'OID of the database';
comment on column agent_internal.database.adopted_at is 'When this database was made the one that executes the runs';
comment on column agent_internal.database.made_at is 'Position of the WAL at which the publications were created';

comment on table agent_internal.trial is 'Has a row in the transaction of a trial, and is empty otherwise';
comment on column agent_internal.trial.started_at is 'Time of the start';

comment on table agent_internal.slot_lock is 'Locked by the process that creates the replication slot';

comment on table agent_internal.apply_lock is 'Locked by the transaction that applies a file';
