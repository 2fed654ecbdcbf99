-- Changes with what they belong to, and the values that the caller can read in their tables.
create or replace view agent.change_overview with (security_invoker = on) as
select c.run_id,
       c.step,
       s.content ->> 'name' as tool,
       d.definition ->> 'agent' as agent,
       coalesce(a.name, d.definition ->> 'name') as attachment,
       r.attachment_version as version,
       r.kind,
       r.undoes,
       c.relation,
       c.schema_name || '.' || c.table_name as table_name,
       c.op,
       c.source,
       case when (select count(*) from jsonb_object_keys(c.key)) = 1 then (select k.value from jsonb_each_text(c.key) k)
            else c.key::text end as key,
       c.columns,
       case when (select agent_internal.sees_changes()) then c.before else agent_internal.readable_part(c.relation, c.before, c.numbers) end as before,
       case when (select agent_internal.sees_changes()) then c.after else agent_internal.readable_part(c.relation, c.after, c.numbers) end as after,
       c.omitted,
       c.rows,
       c.committed_at,
       c.commit_lsn,
       c.ordinal,
       r.tenant
  from agent.row_change c
       join agent.run r on r.id = c.run_id
       left join agent.step s on s.run_id = c.run_id and s.seq = c.step
       left join agent.attachment a on a.id = r.attachment_id
       left join agent.attachment_version v on v.attachment_id = r.attachment_id and v.version = r.attachment_version
       cross join lateral (select coalesce(v.definition, case when r.attachment_id is not null then agent_internal.definition_of_run(r.id) end)
                                  as definition) d;
comment on view agent.change_overview is 'Rows that runs changed, with agent, tool and table, and the values that the caller can read';
comment on column agent.change_overview.run_id is 'Run that changed the row';
comment on column agent.change_overview.step is 'Step whose transaction it is; NULL: not known';
comment on column agent.change_overview.tool is 'Tool that the step called';
comment on column agent.change_overview.agent is 'Name of the agent';
comment on column agent.change_overview.attachment is 'Name of the attachment';
comment on column agent.change_overview.version is 'Version of the attachment';
comment on column agent.change_overview.kind is 'Kind of the run';
comment on column agent.change_overview.undoes is 'Run whose changes the run takes back';
comment on column agent.change_overview.relation is 'OID of the table';
comment on column agent.change_overview.table_name is 'Table, as schema.table';
comment on column agent.change_overview.op is 'insert, update, delete, truncate or more';
comment on column agent.change_overview.source is 'statement or trigger; NULL: not known';
comment on column agent.change_overview.key is 'Primary key, as text; of several columns, as JSON';
comment on column agent.change_overview.columns is 'Columns that an update changed; NULL: not known, or the whole row';
comment on column agent.change_overview.before is 'Values before that the caller can read';
comment on column agent.change_overview.after is 'Values after that the caller can read';
comment on column agent.change_overview.omitted is 'Columns whose values are not recorded';
comment on column agent.change_overview.rows is 'Number of changes that the row stands for';
comment on column agent.change_overview.committed_at is 'Time of the commit';
comment on column agent.change_overview.commit_lsn is 'Commit of the transaction';
comment on column agent.change_overview.ordinal is 'Number of the change in its transaction';
comment on column agent.change_overview.tenant is 'Tenant of the run';
