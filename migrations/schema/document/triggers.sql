create trigger check_document before insert or update of title, body, source, metadata on agent.document
    for each row execute function agent_internal.check_document();

create trigger enqueue_inserted after insert on agent.document
    referencing new table as changed for each statement execute function agent_internal.enqueue_documents();

create trigger enqueue_updated after update on agent.document
    referencing new table as changed for each statement when (pg_trigger_depth() = 0)
    execute function agent_internal.enqueue_documents();

create trigger require_developer before insert or update or delete on agent.document
    for each statement execute function agent_internal.require_developer();

create trigger require_developer before insert or update or delete on agent.document_link
    for each statement execute function agent_internal.require_developer();

create trigger require_developer before insert or update or delete on agent.embedding_setting
    for each statement execute function agent_internal.require_developer();

-- walagent's own triggers act as who executes the statement: see agent_internal.own_triggers().
create trigger enter before insert or update or delete on agent.document for each statement execute function agent_internal.enter_trigger();
create trigger leave after insert or update or delete on agent.document for each statement execute function agent_internal.leave_trigger();
create trigger enter before insert or update or delete on agent.document_link for each statement execute function agent_internal.enter_trigger();
create trigger leave after insert or update or delete on agent.document_link for each statement execute function agent_internal.leave_trigger();
create trigger enter before insert or update or delete on agent.embedding_setting for each statement execute function agent_internal.enter_trigger();
create trigger leave after insert or update or delete on agent.embedding_setting for each statement execute function agent_internal.leave_trigger();
