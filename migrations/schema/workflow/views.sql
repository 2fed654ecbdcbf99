create or replace view agent.workflow_interrupt with (security_invoker = on) as
    select p.id, p.run_id, r.change #>> '{new,tenant}' as tenant, r.change #>> '{new,workflow}' as workflow, p.tool as node,
           coalesce(p.arguments ->> 'type', 'approval') as type, p.arguments ->> 'prompt' as prompt,
           case p.state when 'approved' then 'resolved' when 'expired' then 'timeout' else p.state end as state,
           p.asked_at, p.expires_at, p.decided_by, p.decided_at, p.reason as answer
      from agent.approval p join agent.run r on r.id = p.run_id
     where r.kind = 'node';
comment on view agent.workflow_interrupt is 'Interrupts of workflows: runs that wait, or waited, for a person';
comment on column agent.workflow_interrupt.id is 'ID of the approval';
comment on column agent.workflow_interrupt.run_id is 'Run that waits';
comment on column agent.workflow_interrupt.tenant is 'Tenant of the workflow';
comment on column agent.workflow_interrupt.workflow is 'Workflow';
comment on column agent.workflow_interrupt.node is 'Node at which it waits, or tool whose call waits';
comment on column agent.workflow_interrupt.type is 'approval, input, review or escalation';
comment on column agent.workflow_interrupt.prompt is 'Text for the person';
comment on column agent.workflow_interrupt.state is 'pending, resolved, rejected, timeout or cancelled';
comment on column agent.workflow_interrupt.asked_at is 'Time of the interrupt';
comment on column agent.workflow_interrupt.expires_at is 'When it expires';
comment on column agent.workflow_interrupt.decided_by is 'Principal that resolved or rejected it';
comment on column agent.workflow_interrupt.decided_at is 'Time of the decision';
comment on column agent.workflow_interrupt.answer is 'Answer of the person, or reason of the rejection';
