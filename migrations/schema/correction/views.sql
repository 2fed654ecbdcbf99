-- Corrections with what they belong to, and the values that the caller can read in their tables.
create or replace view agent.correction_overview with (security_invoker = on) as
select c.run_id,
       v.definition ->> 'agent' as agent,
       coalesce(a.name, v.definition ->> 'name') as attachment,
       r.attachment_version as version,
       c.schema_name || '.' || c.table_name as table_name,
       case when (select count(*) from jsonb_object_keys(c.key)) = 1 then (select k.value from jsonb_each_text(c.key) k)
            else c.key::text end as key,
       c.column_name,
       c.kind,
       case when (select agent_internal.sees_changes()) then c.wrote
            else agent_internal.readable_part(c.relation, jsonb_build_object(c.column_name, c.wrote), jsonb_build_object(c.column_name, c.number)) ->> c.column_name end as wrote,
       case when (select agent_internal.sees_changes()) then c.value
            else agent_internal.readable_part(c.relation, jsonb_build_object(c.column_name, c.value), jsonb_build_object(c.column_name, c.number)) ->> c.column_name end as value,
       c.omitted,
       c.rows,
       c.by_run,
       c.committed_at,
       c.commit_lsn,
       c.ordinal,
       r.tenant
  from agent.correction c
       join agent.run r on r.id = c.run_id
       left join agent.attachment a on a.id = r.attachment_id
       left join agent.attachment_version v on v.attachment_id = r.attachment_id and v.version = r.attachment_version;
comment on view agent.correction_overview is 'What others made of what agents wrote, with agent and table, and the values that the caller can read';
comment on column agent.correction_overview.run_id is 'Run whose value was changed';
comment on column agent.correction_overview.agent is 'Name of the agent';
comment on column agent.correction_overview.attachment is 'Name of the attachment';
comment on column agent.correction_overview.version is 'Version of the attachment';
comment on column agent.correction_overview.table_name is 'Table, as schema.table';
comment on column agent.correction_overview.key is 'Primary key, as text; of several columns, as JSON; NULL: of many rows';
comment on column agent.correction_overview.column_name is 'Column that the run had written';
comment on column agent.correction_overview.kind is 'changed, deleted (the row), reverted, or bulk: many rows in one transaction';
comment on column agent.correction_overview.wrote is 'Value that the run wrote';
comment on column agent.correction_overview.value is 'Value that is there since';
comment on column agent.correction_overview.omitted is 'Whether the values are not recorded';
comment on column agent.correction_overview.rows is 'Number of rows that it stands for';
comment on column agent.correction_overview.by_run is 'Run that took the value back';
comment on column agent.correction_overview.committed_at is 'Time of the commit';
comment on column agent.correction_overview.commit_lsn is 'Commit of the transaction';
comment on column agent.correction_overview.ordinal is 'Number of the change in its transaction';
comment on column agent.correction_overview.tenant is 'Tenant of the run';

-- How much of what agents wrote others left as it was: by version, column and day of the run's write.
create or replace view agent.accuracy with (security_invoker = on) as
with written as (
    select c.run_id, c.tenant, n.name as column_name, min(c.committed_at) as committed_at
      from agent.row_change c
           cross join lateral unnest(c.columns) as n (name)
     where c.op = 'update' and c.source = 'statement'
     group by c.run_id, c.tenant, n.name
), corrected as (
    select k.run_id, k.column_name, bool_or(k.kind <> 'bulk') as is_corrected, bool_or(k.kind = 'bulk') as is_bulk
      from agent.correction k group by k.run_id, k.column_name
)
select r.tenant,
       v.definition ->> 'agent' as agent,
       coalesce(a.name, v.definition ->> 'name') as attachment,
       r.attachment_version as version,
       w.column_name,
       w.committed_at::date as day,
       count(*) as written,
       count(*) filter (where k.is_corrected) as corrected,
       count(*) filter (where k.is_bulk and not k.is_corrected) as changed_in_bulk,
       count(*) filter (where k.run_id is null and w.committed_at < agent_internal.now() - interval '7 days') as confirmed
  from written w
       join agent.run r on r.id = w.run_id and r.kind = 'agent'
       join agent.attachment_version v on v.attachment_id = r.attachment_id and v.version = r.attachment_version
       left join agent.attachment a on a.id = r.attachment_id
       left join corrected k on k.run_id = w.run_id and k.column_name = w.column_name
 where v.definition -> 'writes' ? w.column_name
 group by r.tenant, 2, 3, r.attachment_version, w.column_name, 6;
comment on view agent.accuracy is 'How much of what agents wrote others left as it was';
comment on column agent.accuracy.tenant is 'Tenant of the runs';
comment on column agent.accuracy.agent is 'Name of the agent';
comment on column agent.accuracy.attachment is 'Name of the attachment';
comment on column agent.accuracy.version is 'Version of the attachment';
comment on column agent.accuracy.column_name is 'Column that update_row wrote';
comment on column agent.accuracy.day is 'Day of the write, in the time zone of the session';
comment on column agent.accuracy.written is 'Number of runs that wrote the column';
comment on column agent.accuracy.corrected is 'Number of them whose value somebody changed, or whose row somebody deleted';
comment on column agent.accuracy.changed_in_bulk is 'Number of others whose value changed with many rows';
comment on column agent.accuracy.confirmed is 'Number of those whose value nobody has changed for seven days';
