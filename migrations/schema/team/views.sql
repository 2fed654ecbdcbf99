create or replace view agent.proposal_overview with (security_invoker = on) as
    select p.tenant, p.team, p.id, p.title, p.state, p.rule, p.deadline, p.proposed_by, p.created_at, p.decided_at,
           coalesce(v.yes, 0) as yes, coalesce(v.no, 0) as no, coalesce(v.abstain, 0) as abstain, coalesce(v.votes, 0) as votes,
           (select count(*) from agent.team_member m where m.tenant = p.tenant and m.team = p.team and m.role <> 'observer') as voters
      from agent.proposal p
           left join lateral (
               select sum(x.weight) filter (where x.choice = 'yes') as yes, sum(x.weight) filter (where x.choice = 'no') as no,
                      sum(x.weight) filter (where x.choice = 'abstain') as abstain, count(*) as votes
                 from agent.vote x where x.tenant = p.tenant and x.proposal_id = p.id) v on true;
comment on view agent.proposal_overview is 'Proposals with the weight of their votes';
comment on column agent.proposal_overview.tenant is 'Tenant of the team';
comment on column agent.proposal_overview.team is 'Team that decides';
comment on column agent.proposal_overview.id is 'ID of the proposal';
comment on column agent.proposal_overview.title is 'What is proposed';
comment on column agent.proposal_overview.state is 'open, accepted, rejected or withdrawn';
comment on column agent.proposal_overview.rule is 'consensus, majority or unanimity';
comment on column agent.proposal_overview.deadline is 'When it is decided by the votes there are';
comment on column agent.proposal_overview.proposed_by is 'Principal that proposed it';
comment on column agent.proposal_overview.created_at is 'Time of the proposal';
comment on column agent.proposal_overview.decided_at is 'Time of the decision';
comment on column agent.proposal_overview.yes is 'Weight of yes';
comment on column agent.proposal_overview.no is 'Weight of no';
comment on column agent.proposal_overview.abstain is 'Weight of abstentions';
comment on column agent.proposal_overview.votes is 'Number of votes';
comment on column agent.proposal_overview.voters is 'Number of members that can vote';

create or replace view agent.pending_message with (security_invoker = on) as
    select m.tenant, m.principal, e.thread_id, e.number, e.id, e.author, e.data ->> 'kind' as kind, e.data ->> 'to' as "to", e.data ->> 'text' as text, e.created_at
      from agent.member m
           join agent.principal p on p.tenant = m.tenant and p.name = m.principal and p.kind = 'agent'
           join agent.event e on e.tenant = m.tenant and e.thread_id = m.thread_id and e.number > m.seen
     where e.type = 'text' and e.author <> m.principal and coalesce(e.data ->> 'to', m.principal) = m.principal;
comment on view agent.pending_message is 'Messages that no turn of an agent has taken up: for all members of a thread, or for this agent';
comment on column agent.pending_message.tenant is 'Tenant of the thread';
comment on column agent.pending_message.principal is 'Agent that they are for';
comment on column agent.pending_message.thread_id is 'Thread';
comment on column agent.pending_message.number is 'Number of the event';
comment on column agent.pending_message.id is 'ID of the event';
comment on column agent.pending_message.author is 'Principal that wrote it';
comment on column agent.pending_message.kind is 'Kind that its author gave: comment, question, hand_over and so on; NULL: none';
comment on column agent.pending_message.to is 'Member that it is for; NULL: all';
comment on column agent.pending_message.text is 'Text';
comment on column agent.pending_message.created_at is 'Time of the message';

create or replace view agent.reaction with (security_invoker = on) as
    select x.tenant, x.thread_id, x.event_id, x.principal, x.reaction, x.created_at
      from (select distinct on (e.tenant, e.data ->> 'event', e.author, e.data ->> 'reaction')
                   e.tenant, e.thread_id, (e.data ->> 'event')::uuid as event_id, e.author as principal, e.data ->> 'reaction' as reaction,
                   e.data ->> 'action' as action, e.created_at
              from agent.event e
             where e.type = 'system' and e.data ->> 'action' in ('reacted', 'unreacted') and e.data ->> 'target' = 'event'
             order by e.tenant, e.data ->> 'event', e.author, e.data ->> 'reaction', e.number desc) x
     where x.action = 'reacted';
comment on view agent.reaction is 'Reactions to events that were not taken back';
comment on column agent.reaction.tenant is 'Tenant of the thread';
comment on column agent.reaction.thread_id is 'Thread';
comment on column agent.reaction.event_id is 'Event that it is about';
comment on column agent.reaction.principal is 'Principal that reacted';
comment on column agent.reaction.reaction is 'Word or symbol';
comment on column agent.reaction.created_at is 'Time of the reaction';
