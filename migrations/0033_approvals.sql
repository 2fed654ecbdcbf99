-- What a person who decides about a tool call has to see: the whole call, and the row that it is about.

create or replace view agent.pending_approval with (security_invoker = on) as
    select p.id, p.run_id, a.name as attachment, p.tool, p.arguments, r.key, p.asked_at, p.expires_at,
           (r.change ->> 'schema') || '.' || (r.change ->> 'table') as relation,
           coalesce((select jsonb_object_agg(b.argument, c.content -> b.source)
                       from jsonb_array_elements(v.definition -> 'tools') t
                            cross join jsonb_each_text(t -> 'bind') b (argument, source)
                      where t ->> 'name' = p.tool), '{}') as bound,
           c.content as content
      from agent.approval p
           join agent.run r on r.id = p.run_id
           left join agent.attachment a on a.id = r.attachment_id
           left join agent.attachment_version v
             on v.attachment_id = r.attachment_id and v.version = r.attachment_version
           cross join lateral (select coalesce(nullif(r.change -> 'new', 'null'), r.change -> 'old')) c (content)
     where p.state = 'pending';
comment on column agent.pending_approval.arguments is 'Arguments of the call that the model chose';
comment on column agent.pending_approval.relation is 'Table of the row, as schema.table';
comment on column agent.pending_approval.bound is 'Arguments of the call that come from the row';
comment on column agent.pending_approval.content is 'The row as the agent saw it: after the change, or before a delete';
