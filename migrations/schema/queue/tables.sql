-- The queues.  What is in them is in agent.run alone: neither a claim nor the end of a run updates a row of this table, so
-- they commit concurrently.  There can be very many sessions, few of which have runs to claim: a claim does not read the
-- whole table.
create table agent_internal.queue (
    id            bigint primary key default nextval('agent_internal.queue_id'),
    kind          text not null,
    attachment_id bigint unique,
    session_id    text,
    cap           integer,
    paused        boolean not null default false,
    tenant        text collate "C" not null default agent.current_tenant(),
    name          text,
    unique (tenant, session_id),
    foreign key (tenant, session_id) references agent.session on delete cascade,
    constraint columns_fit_kind check (case kind
        when 'agent' then attachment_id is not null and session_id is null and name is null
        when 'question' then session_id is not null and attachment_id is null and name is null
        when 'turn' then session_id is null and num_nonnulls(attachment_id, name) = 1
        else session_id is null and num_nonnulls(attachment_id, name) <= 1
    end)
);

create unique index queue_named on agent_internal.queue (tenant, kind, name) where name is not null;
