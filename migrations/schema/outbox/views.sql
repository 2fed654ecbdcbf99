create or replace view agent.delivery with (security_invoker = on) as
    select o.tenant, o.id, o.channel, c.kind, o.event, o.subject, o.run_id, r.state, r.attempt, r.next_attempt_at,
           r.error ->> 'reason' as error, r.result, o.cause_run, o.created_by, o.created_at, r.finished_at
      from agent.outbox o
           join agent.channel c on c.tenant = o.tenant and c.name = o.channel
           left join agent.run r on r.id = o.run_id;
comment on view agent.delivery is 'Messages of the outbox with the state of their delivery';
comment on column agent.delivery.tenant is 'Tenant that sends it';
comment on column agent.delivery.id is 'ID of the delivery, the same in each attempt';
comment on column agent.delivery.channel is 'Channel that it leaves by';
comment on column agent.delivery.kind is 'webhook, email or slack';
comment on column agent.delivery.event is 'Event of the rule that sent it; message: a tool or an application';
comment on column agent.delivery.subject is 'Subject';
comment on column agent.delivery.run_id is 'Run that delivers it';
comment on column agent.delivery.state is 'State of the run';
comment on column agent.delivery.attempt is 'Number of attempts';
comment on column agent.delivery.next_attempt_at is 'When waiting_retry ends';
comment on column agent.delivery.error is 'Reason of a failure or wait';
comment on column agent.delivery.result is 'What the receiver answered';
comment on column agent.delivery.cause_run is 'Run that sent it, or that it is about';
comment on column agent.delivery.created_by is 'Principal that sent it';
comment on column agent.delivery.created_at is 'Time of the insert';
comment on column agent.delivery.finished_at is 'Time of the end';
