create or replace view agent.pending_approval with (security_invoker = on) as
    select p.id, p.run_id, coalesce(a.name, d.definition ->> 'name') as attachment, p.tool, p.arguments, r.key, p.asked_at, p.expires_at,
           (r.change ->> 'schema') || '.' || (r.change ->> 'table') as relation,
           coalesce((select jsonb_object_agg(b.argument, c.content -> b.source)
                       from jsonb_array_elements(d.definition -> 'tools') t
                            cross join jsonb_each_text(t -> 'bind') b (argument, source)
                      where t ->> 'name' = p.tool), '{}') as bound,
           c.content as content,
           p.agent, p.risk, p.requested_by, p.four_eyes, p.digest
      from agent.approval p
           join agent.run r on r.id = p.run_id
           left join agent.attachment a on a.id = r.attachment_id
           left join agent.attachment_version v
             on v.attachment_id = r.attachment_id and v.version = r.attachment_version
           cross join lateral (select coalesce(v.definition, case when r.attachment_id is not null then agent_internal.definition_of_run(r.id) end)
                                      as definition) d
           cross join lateral (select coalesce(nullif(r.change -> 'new', 'null'), r.change -> 'old')) c (content)
     where p.state = 'pending'
     order by agent_internal.risk_rank(p.risk) desc, p.id;
comment on view agent.pending_approval is 'Pending approvals, the highest risk first, then the oldest';
comment on column agent.pending_approval.id is 'Approval ID';
comment on column agent.pending_approval.run_id is 'Run that waits';
comment on column agent.pending_approval.attachment is 'Name of the attachment';
comment on column agent.pending_approval.tool is 'Tool that is called';
comment on column agent.pending_approval.arguments is 'Arguments of the call that the model chose';
comment on column agent.pending_approval.key is 'Primary key of the row, as text';
comment on column agent.pending_approval.asked_at is 'Time of the request';
comment on column agent.pending_approval.expires_at is 'When the request expires';
comment on column agent.pending_approval.relation is 'Table of the row, as schema.table';
comment on column agent.pending_approval.bound is 'Arguments of the call that come from the row';
comment on column agent.pending_approval.content is 'The row as the agent saw it: after the change, or before a delete';
comment on column agent.pending_approval.agent is 'Agent that made the call';
comment on column agent.pending_approval.risk is 'Risk of the tool; of one without a risk: critical';
comment on column agent.pending_approval.requested_by is 'Principals who started the run';
comment on column agent.pending_approval.four_eyes is 'Whether they cannot decide';
comment on column agent.pending_approval.digest is 'Digest of run, call, tool and arguments';
