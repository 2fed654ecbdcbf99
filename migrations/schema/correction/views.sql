-- Corrections with what they belong to, and the values that the caller can read in their tables.
create or replace view agent.correction_overview with (security_invoker = on) as
select c.run_id,
       d.definition ->> 'agent' as agent,
       coalesce(a.name, d.definition ->> 'name') as attachment,
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
       c.corrected_by,
       c.committed_at,
       c.commit_lsn,
       c.ordinal,
       r.tenant
  from agent.correction c
       join agent.run r on r.id = c.run_id
       left join agent.attachment a on a.id = r.attachment_id
       left join agent.attachment_version v on v.attachment_id = r.attachment_id and v.version = r.attachment_version
       cross join lateral (select coalesce(v.definition, agent_internal.definition_of_run(r.id)) as definition) d;
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
comment on column agent.correction_overview.corrected_by is 'Principal or login that signed the transaction, or that asked for the revert; NULL: not known';
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
), scored as (
    select s.run_id, sum(s.value) as value from agent.score s group by s.run_id
)
select r.tenant,
       d.definition ->> 'agent' as agent,
       coalesce(a.name, d.definition ->> 'name') as attachment,
       r.attachment_version as version,
       w.column_name,
       w.committed_at::date as day,
       count(*) as written,
       count(*) filter (where k.is_corrected) as corrected,
       count(*) filter (where k.is_bulk and not k.is_corrected) as changed_in_bulk,
       count(*) filter (where k.run_id is null and coalesce(s.value, 0) >= 0
                              and w.committed_at < agent_internal.now() - interval '7 days') as confirmed,
       count(s.run_id) as scored,
       -- What a person says of the run counts for more than what somebody made of the value: the world can have changed.
       count(*) filter (where s.value < 0 or k.is_corrected and coalesce(s.value, 0) = 0) as wrong
  from written w
       join agent.run r on r.id = w.run_id and r.kind = 'agent'
       left join agent.attachment_version v on v.attachment_id = r.attachment_id and v.version = r.attachment_version
       cross join lateral (select coalesce(v.definition, agent_internal.definition_of_run(r.id)) as definition) d
       left join agent.attachment a on a.id = r.attachment_id
       left join corrected k on k.run_id = w.run_id and k.column_name = w.column_name
       left join scored s on s.run_id = w.run_id
 where d.definition -> 'writes' ? w.column_name
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
comment on column agent.accuracy.confirmed is 'Number of those whose value nobody has changed for seven days, and whose run nobody says was wrong';
comment on column agent.accuracy.scored is 'Number of those whose run people have scored';
comment on column agent.accuracy.wrong is 'Number of those whose run people say was wrong, or that were corrected and nobody says were right';

-- Succeeded runs that a person should look at, and why.  Nothing is stored for it: the reasons follow from what is recorded.
--
-- Read it by run_id, the latest first, with a limit or a lower bound: each run costs a look-up in its steps.
create or replace view agent.unscored_run with (security_invoker = on) as
select r.id as run_id,
       d.definition ->> 'agent' as agent,
       coalesce(a.name, d.definition ->> 'name') as attachment,
       r.attachment_version as version,
       (r.change ->> 'schema') || '.' || (r.change ->> 'table') as table_name,
       r.key,
       x.reasons,
       r.created_at,
       r.finished_at,
       r.tenant
  from agent.run r
       left join agent.attachment_version v on v.attachment_id = r.attachment_id and v.version = r.attachment_version
       cross join lateral (select coalesce(v.definition, agent_internal.definition_of_run(r.id)) as definition) d
       left join agent.attachment a on a.id = r.attachment_id
       cross join lateral (
           select count(*) filter (where s.kind = 'reply') as replies,
                  coalesce(bool_or(s.kind in ('note', 'result') and s.content ? 'correction'), false) as has_mistakes,
                  coalesce(bool_or(s.kind = 'note' and s.content ? 'fallback'), false) as fell_back
             from agent.step s
            where s.run_id = r.id) t
       cross join lateral (
           select array_remove(array[
               case when exists (select from agent.correction k where k.run_id = r.id and k.kind in ('changed', 'deleted')) then 'corrected' end,
               case when exists (select from agent.evaluation_case c join agent.evaluation e on e.id = c.evaluation_id
                                  where c.run_id = r.id and e.shadow is not null and not c.agrees and c.candidate ->> 'state' = 'succeeded')
                    then 'shadow_differs' end,
               case when t.has_mistakes then 'mistakes' end,
               case when t.fell_back then 'fell_back' end,
               case when t.replies > 4 and t.replies >= 0.8 * (d.definition ->> 'max_steps')::numeric
                         or r.tokens >= 0.8 * (d.definition ->> 'max_tokens')::numeric
                         or r.cost >= 0.8 * (d.definition ->> 'max_cost')::numeric then 'near_limit' end,
               case when abs(hashint8extended(r.id, 0) % 1000000) < 1000000 * (d.definition ->> 'score_share')::numeric then 'sample' end],
               null) as reasons) x
 where r.kind = 'agent' and r.state = 'succeeded' and d.definition is not null and x.reasons <> '{}'
   and not exists (select from agent.score s where s.run_id = r.id);
comment on view agent.unscored_run is 'Succeeded runs that a person should look at, and why; agent.score() takes one off';
comment on column agent.unscored_run.run_id is 'Run';
comment on column agent.unscored_run.agent is 'Name of the agent';
comment on column agent.unscored_run.attachment is 'Name of the attachment';
comment on column agent.unscored_run.version is 'Version of the attachment';
comment on column agent.unscored_run.table_name is 'Table of its row, as schema.table';
comment on column agent.unscored_run.key is 'Primary key of its row, as text';
comment on column agent.unscored_run.reasons is 'corrected: others changed what it wrote; shadow_differs: a shadow did something else; mistakes: replies that went back to the model; fell_back: another model answered; near_limit: 80 % of max_steps, max_tokens or max_cost; sample: by score_share';
comment on column agent.unscored_run.created_at is 'Time of the creation';
comment on column agent.unscored_run.finished_at is 'Time of the end';
comment on column agent.unscored_run.tenant is 'Tenant of the run';
