create or replace function agent_internal.check_detach()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if not agent_internal.may_change(old.attached_by) then
        raise exception 'attachment "%" belongs to role "%"', old.name, old.attached_by
            using errcode = '42501', hint = format('Connect as %I, as a member of it, or as the owner of the schema.', old.attached_by);
    end if;
    return old;
end;
$$;

create or replace function agent_internal.delete_attachment_state()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '10s'
as $$
begin
    delete from agent.backfill where attachment_id = old.id;
    perform agent_internal.follow_canary(old, null);
    perform agent_internal.request_for_attachments(old.relation);
    perform agent_internal.publish_relation(old.relation);
    return null;
end;
$$;

create or replace function agent_internal.refuse_truncate()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception 'cannot truncate agent.attachment'
        using hint = 'Use delete from agent.attachment: it also ends the publication of the tables.';
end;
$$;
