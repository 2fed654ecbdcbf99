create trigger wake_priced
    after update of input_price, output_price on agent.model
    for each row when (new.input_price is not null and new.output_price is not null)
    execute function agent_internal.wake_priced();

create trigger audit_change after insert or update or delete on agent.model
    for each row execute function agent_internal.audit_change('model', 'name', '');

create trigger check_credential after insert or update of credential, tenant on agent.model
    for each row when (new.credential is not null) execute function agent_internal.check_credential();

-- Of others, base_url can be something else: the path of a script.
create trigger check_base_url after insert or update of base_url, provider on agent.model
    for each row when (new.base_url is not null and new.provider in ('anthropic', 'openai'))
    execute function agent_internal.check_base_url();

create trigger check_kept_embeddings after update of provider, model_id, dimensions on agent.model
    for each row when ((new.provider, new.model_id, new.dimensions) is distinct from (old.provider, old.model_id, old.dimensions)
                       and old.dimensions is not null)
    execute function agent_internal.check_kept_embeddings();

create trigger check_parameters before insert or update of parameters on agent.model
    for each row when (jsonb_typeof(new.parameters) = 'object') execute function agent_internal.check_parameters();

create trigger check_bands before insert or update of price_bands on agent.model
    for each row when (jsonb_typeof(new.price_bands) = 'array') execute function agent_internal.check_bands();

-- walagent's own triggers act as who executes the statement: see agent_internal.own_triggers().
create trigger enter before insert or update or delete on agent.model for each statement execute function agent_internal.enter_trigger();
create trigger leave after insert or update or delete on agent.model for each statement execute function agent_internal.leave_trigger();
