-- The token of a link.
create or replace function agent_internal.link_token(_link agent.approval_link)
    returns text
    language sql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
    select _link.id || '.' || agent_internal.mac(format('approval link %s', jsonb_build_array(
        _link.tenant, _link.id, _link.approval_id, _link.principal, _link.digest, extract(epoch from _link.expires_at))))
$$;

-- What a token of a link stands for, without changing anything.
--
-- Returns: refusal: why it cannot decide; NULL: it can.
create or replace function agent_internal.open_link(_token text, out link agent.approval_link, out approval agent.approval, out refusal text)
    language plpgsql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
    set standard_conforming_strings = on
as $$
begin
    if _token ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.[0-9a-f]{64}$' then
        select * into link from agent.approval_link l where l.id = split_part(_token, '.', 1)::uuid;
    end if;
    if link.id is null or sha256(convert_to(agent_internal.link_token(link), 'utf8')) <> sha256(convert_to(_token, 'utf8')) then
        link := null;
        refusal := 'the link is not valid';
        return;
    end if;
    select * into approval from agent.approval a where a.id = link.approval_id;
    refusal := case
        when link.used_at is not null then 'the link has been used'
        when link.expires_at <= agent_internal.now() then 'the link has expired'
        when approval.id is null or approval.digest <> link.digest then 'the call is not the one that the link is for'
        when approval.state <> 'pending' then format('the call is already %s', approval.state)
        when not exists (select from agent.principal p join agent.tenant t on t.name = p.tenant
                          where p.tenant = link.tenant and p.name = link.principal and p.active and t.active)
            then 'the approver of the link is not active' end;
end;
$$;
comment on function agent_internal.open_link(text) is 'What a token of a link stands for';

-- Decide as the approver of a link.
--
-- Returns why it was refused; NULL: it decided.
create or replace function agent_internal.use_link(_token text, _approve boolean, _reason text default null)
    returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _opened record;
    _why    text;
begin
    _opened := agent_internal.open_link(_token);
    -- Approvals are locked first; what holds after that is what counts.
    perform from agent.approval a where a.id = (_opened.approval).id for no key update;
    perform from agent.approval_link l where l.id = (_opened.link).id for update;
    _opened := agent_internal.open_link(_token);
    _why := coalesce(_opened.refusal, agent_internal.decide_as(
        (_opened.link).tenant, (_opened.link).principal, (_opened.link).approval_id, _approve, _reason));
    if _why is null then
        update agent.approval_link l set used_at = agent_internal.now() where l.id = (_opened.link).id;
    elsif (_opened.link).id is not null then  -- anyone can send tokens of no link, without end
        perform agent_internal.audit('approval.refused', (_opened.link).approval_id::text, jsonb_build_object(
            'by', 'link', 'link', (_opened.link).id, 'principal', (_opened.link).principal, 'reason', _why), (_opened.link).tenant);
    end if;
    return _why;
end;
$$;
comment on function agent_internal.use_link(text, boolean, text) is 'Decide as the approver of a link; return why not';

-- Decide a call in the name of a principal whom the caller has recognized.  Returns why it was refused; NULL: decided.
create or replace function agent_internal.decide_as(_tenant text, _principal name, _approval bigint, _approve boolean, _reason text)
    returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.assume(_tenant, _principal);
    perform agent_internal.decide(_approval, case when _approve then 'approved' else 'rejected' end,
                                  case when not _approve then nullif(_reason, '') end);
    return null;
exception
    when sqlstate 'WA005' or sqlstate 'WA006' or insufficient_privilege then
        return sqlerrm;
end;
$$;

-- Decide as the principal of a Slack user: the one with this user in its metadata, in the tenant of the approval.
create or replace function agent_internal.decide_from_slack(_user text, _approval bigint, _digest text, _approve boolean)
    returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _row    agent.approval;
    _tenant text;
    _who    name[];
    _why    text;
begin
    select * into _row from agent.approval a where a.id = _approval for no key update;
    _tenant := _row.tenant;
    _who := array(select p.name from agent.principal p
                   where p.tenant = _tenant and p.active and p.metadata ->> 'slack_user' = _user);
    _why := case
        when _row.id is null then format('approval %s does not exist', _approval)
        when _row.digest <> _digest then 'the call is not the one that the message shows'
        when cardinality(_who) <> 1 then 'no principal has this Slack user'
        else agent_internal.decide_as(_tenant, _who[1], _approval, _approve, null) end;
    if _why is not null then
        perform agent_internal.audit('approval.refused', _approval::text,
            jsonb_build_object('by', 'slack', 'slack_user', _user, 'principal', _who[1], 'reason', _why), _tenant);
    end if;
    return _why;
end;
$$;
comment on function agent_internal.decide_from_slack(text, bigint, text, boolean) is 'Decide as the principal of a Slack user; return why not';
