-- Changing agents and their attachments together, as `walagent apply` does.

-- An agent's change is a new version of each of its attachments.
--
-- Whoever changes an agent and its attachments in one transaction would have each attachment checked
-- against half of the change: a tool that is new to the agent may need a column that only the new
-- attachment writes.  With the setting walagent.applying = on, nothing is done here, and the caller
-- makes the versions itself once all is in place.  One that sets it and does not only keeps its own
-- attachments as they were.
create or replace function agent_internal.touch_attachments()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if coalesce(current_setting('walagent.applying', true), '') <> 'on' then
        -- One that has lost its ground can have no new version; resuming will make it.
        update agent.attachment set version = version + 1 where agent = new.name and agent_internal.drift_of(definition) is null;
    end if;
    return null;
end;
$$;
