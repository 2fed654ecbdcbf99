create trigger check_transition
    before update of state on agent.run
    for each row
    when (old.state is distinct from new.state)
    execute function agent_internal.check_transition();

create trigger notify_workers
    after update of state on agent.run
    for each row when (new.state = 'pending' and old.state in ('waiting_approval', 'needs_review', 'failed', 'dead', 'cancelled')
                       or new.state = 'cancelled' and old.state <> 'running')
    execute function agent_internal.notify_workers();

create trigger notify_of_run
    after update of state on agent.run
    for each row when (new.state in ('dead', 'needs_review') and old.state <> new.state
                       or new.state in ('waiting_retry', 'failed') and new.error ? 'budget')
    execute function agent_internal.notify_of_run();

create trigger inherit_tenant before insert on agent_internal.merged_change
    for each row execute function agent_internal.inherit_tenant('run');

create trigger inherit_tenant before insert on agent_internal.deferred_change
    for each row execute function agent_internal.inherit_tenant('run');

create trigger inherit_tenant before insert on agent_internal.cancel_request
    for each row execute function agent_internal.inherit_tenant('run');

create trigger drop_row before update of state on agent.run
    for each row when (new.state = 'skipped' and new.kind = 'agent') execute function agent_internal.drop_row();
