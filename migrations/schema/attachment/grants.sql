insert into agent_internal.privilege (kind, object, privilege, capabilities) values
    ('table', 'agent.attachment', 'select', '{runner,viewer}'),
    ('table', 'agent.attachment_version', 'select', '{viewer}'),
    ('table', 'agent.attachment_version', 'select (attachment_id, version, active_from, active_until)', '{developer}'),
    ('table', 'agent.attachment_version', 'select, insert, update (active_from, active_until, shadow, share)', '{runner}'),
    ('table', 'agent.backfill', 'select', '{viewer,developer}'),
    ('table', 'agent.backfill', 'select, insert, update, delete', '{runner}'),
    ('table', 'agent_internal.backfill_seen', 'select, insert, update, delete', '{runner}'),
    ('sequence', 'agent_internal.queue_id', 'usage', '{runner,developer}'),
    ('function', 'agent.attach(text, text)', 'execute', '{runner,developer}'),
    ('function', 'agent.detach(text)', 'execute', '{runner,developer}'),
    ('function', 'agent.pause(text, text)', 'execute', '{runner,developer}'),
    ('function', 'agent.resume(text)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.attach(regclass, jsonb, name[])', 'execute', '{runner,developer}'),
    ('function', 'agent.enrich(regclass, text[], text[], text, text, text, text, jsonb, jsonb, numeric, integer, integer, text[], numeric, text, text, interval, integer, text, name, interval, integer, text, boolean, integer, boolean, boolean)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.enrichment(regclass, text[], text[], jsonb)', 'execute', '{runner,developer}'),
    ('function', 'agent.embed(regclass, text[], text, text, text, jsonb, numeric, integer, interval, text, name, interval, integer, text, boolean, integer, boolean, boolean)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.embedding_spec(regclass, text[], text, jsonb)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.check_kept(regclass, text[], text[])', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.check_embedding(agent.attachment)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.check_embedder(agent.agent, agent.attachment, text[])', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.check_same_embeddings(text, jsonb, jsonb)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.vector_dimensions(regclass, text)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.embedding_drift(regclass, jsonb)', 'execute', '{runner}'),
    ('function', 'agent_internal.attach_keys()', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.change_agent(text, jsonb)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.check_relation(regclass, text[])', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.check_streamed(regclass, text[], text, text)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.check_bound_types(regclass, jsonb, jsonb)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.check_writable(regclass, text[])', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.fits_type(oid, oid)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.check_visibility(regclass, text[], name)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.checked_attachment(text, agent.attachment, agent.attachment, name[])', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.code_in_tree(text, boolean)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.code_of_types(oid[])', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.column_drift(regclass, jsonb)', 'execute', '{runner}'),
    ('function', 'agent_internal.compile_condition(regclass, text, text)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.define(agent.attachment)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.detach(text, name[])', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.drift_of(jsonb)', 'execute', '{runner,viewer,developer}'),
    ('function', 'agent_internal.drift_of_run(bigint, text)', 'execute', '{runner}'),
    ('function', 'agent_internal.drop_message(jsonb)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.identity_drift(regclass, jsonb)', 'execute', '{runner}'),
    ('function', 'agent_internal.compiled_expression(text, text, name, text, name, text)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.is_one_expression(text)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.check_use(text, text)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.is_trial()', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.may_change(name)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.parse_spec(text)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.pause_broken(bigint, text)', 'execute', '{runner}'),
    ('function', 'agent_internal.pause_drifted()', 'execute', '{runner}'),
    ('function', 'agent_internal.reattach_message(agent.attachment)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.repin_runs(bigint, integer)', 'execute', '{runner}'),
    ('function', 'agent_internal.row_filter(regclass, text)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.spec_bind(jsonb)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.spec_row(text, jsonb)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.spec_skip(text, integer)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.spec_typed(text, jsonb, text, boolean)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.spec_value(text, integer, text, text)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.spec_values(jsonb)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.stream_drift(regclass, jsonb)', 'execute', '{runner}'),
    ('function', 'agent_internal.split_constants(text)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.table_named(text, name[])', 'execute', '{runner,viewer,developer}'),
    ('function', 'agent_internal.tool_drift(regclass, jsonb)', 'execute', '{runner}'),
    ('function', 'agent_internal.types_of_constants(text, text[], text, text)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.view_condition(regclass, regclass, text[])', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.view_text(regclass, text, text)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.with_casts(text[], text)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.with_typed_constants(text, text, text, text, text)', 'execute', '{runner,developer}'),
    ('function', 'agent_internal.write_row(text, text, jsonb, name[])', 'execute', '{runner,developer}');

-- Not its ID: numbers are of all tenants, and one that is refused would tell that another tenant has it.
insert into agent_internal.privilege (kind, object, privilege, capabilities)
select 'table', 'agent.attachment', format('select, insert (%1$s), update (%1$s), delete', string_agg(a.attname, ', ' order by a.attnum)),
       '{developer}'
  from pg_catalog.pg_attribute a
 where a.attrelid = 'agent.attachment'::regclass and a.attnum > 0 and not a.attisdropped and a.attname <> 'id';

-- agent.attach() with named arguments: its types are generated.
insert into agent_internal.privilege (kind, object, privilege, capabilities)
select 'function', p.oid::regprocedure::text, 'execute', '{runner,developer}'
  from pg_catalog.pg_proc p
 where p.pronamespace = 'agent'::regnamespace and p.proname = 'attach' and p.prokind = 'f' and p.pronargs > 2;

insert into agent_internal.owner_function (function) values
    ('agent_internal.delete_attachment_state()'),
    ('agent_internal.drift_of(jsonb)'),
    ('agent_internal.freeze_attachment()'),
    ('agent_internal.pause_broken(bigint, text)');
