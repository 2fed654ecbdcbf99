create trigger inherit_tenant before insert on agent_internal.queue
    for each row when (new.attachment_id is not null) execute function agent_internal.inherit_tenant('attachment');
