create sequence agent_internal.queue_turn;

-- The queues.  `queued` and `used` are hints that claims maintain and agent_internal.tick() repairs; agent.run has
-- the truth.  So ending a run updates no row that runs share, and ends commit concurrently.
--
-- Each claim updates rows of this table; the fill factor keeps new versions on the page of the old ones.  There
-- can be very many sessions, few of which have runs to claim: neither a claim nor a tick reads the whole table.
create table agent_internal.queue (
    id            bigint primary key default nextval('agent_internal.queue_id'),
    kind          text not null,
    attachment_id bigint unique,
    session_id    text,
    cap           integer,
    used          integer not null default 0,
    queued        boolean not null default true,
    paused        boolean not null default false,
    served        bigint not null default 0,
    tenant        text collate "C" not null default agent.current_tenant(),
    last_tenant   text collate "C" not null default '',
    name          text,
    unique (tenant, session_id),
    foreign key (tenant, session_id) references agent.session on delete cascade,
    constraint columns_fit_kind check (case kind
        when 'agent' then attachment_id is not null and session_id is null and name is null
        when 'question' then session_id is not null and attachment_id is null and name is null
        when 'turn' then session_id is null and num_nonnulls(attachment_id, name) = 1
        else session_id is null and num_nonnulls(attachment_id, name) <= 1
    end)
)
with (fillfactor = 80);

create index queue_ready on agent_internal.queue (kind) where queued and not paused;

create index queue_capped on agent_internal.queue (id) where cap is not null;

create unique index queue_named on agent_internal.queue (tenant, kind, name) where name is not null;
