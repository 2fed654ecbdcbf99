-- The definition of an attachment: checked, and frozen, when the attachment is inserted or updated.
--
-- agent.attach(), plain DML on agent.attachment and `walagent apply` end in the same rows, so the checks are
-- triggers.  They run with the rights of the role that attaches: it cannot attach what it cannot see or call.

-- Reject columns that are never in the WAL: generated ones, except stored ones from version 18 on.
create or replace function agent_internal.check_streamed(_relation regclass, _columns text[], _what text, _state text default 'WA013')
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _absent text;
begin
    select attname into _absent
      from pg_catalog.pg_attribute
     where attrelid = _relation and attname = any (_columns) and not attisdropped and attgenerated <> ''
       and (attgenerated = 'v' or current_setting('server_version_num')::integer < 180000)
     limit 1;
    if found then
        raise exception '%: generated column "%" of % is not in the WAL', _what, _absent, _relation
            using errcode = _state, hint = 'Use the columns that it is generated from.';
    end if;
end;
$$;

-- update_row cannot set what the server sets.
create or replace function agent_internal.check_writable(_relation regclass, _writes text[])
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _column pg_catalog.pg_attribute;
begin
    select a.* into _column
      from pg_catalog.pg_attribute a
     where a.attrelid = _relation and a.attname = any (_writes) and not a.attisdropped
       and (a.attgenerated <> '' or a.attidentity = 'a')
     order by a.attnum limit 1;
    if _column.attgenerated <> '' then
        raise exception 'writes: column "%" of % is generated', _column.attname, _relation
            using errcode = 'WA013', hint = 'Write the columns that it is generated from.';
    elsif _column.attidentity = 'a' then
        raise exception 'writes: column "%" of % is generated always as identity', _column.attname, _relation
            using errcode = 'WA013', hint = 'Leave it out: the server sets it when the row is inserted.';
    end if;
end;
$$;

-- Whether each value of a type can be an argument of another.
create or replace function agent_internal.fits_type(_from oid, _to oid)
    returns boolean
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    with recursive based (base, side) as (
        select g.type, g.side from (values (_from, 1), (_to, 2)) as g (type, side)
         union all
        select t.typbasetype, b.side from based b join pg_catalog.pg_type t on t.oid = b.base where t.typtype = 'd'
    )
    select coalesce(bool_or(
               f.oid = t.oid or t.typcategory = 'S' or t.oid in ('json'::regtype, 'jsonb'::regtype)
               or f.typcategory = 'A' and t.typcategory = 'A' and agent_internal.fits_type(f.typelem, t.typelem)
               or f.oid in ('json'::regtype, 'jsonb'::regtype) and (t.typtype = 'c' or t.typcategory = 'A')
               or exists (select from pg_catalog.pg_cast c
                           where c.castsource = f.oid and c.casttarget = t.oid and c.castcontext in ('i', 'a'))), false)
      from based a join pg_catalog.pg_type f on f.oid = a.base and a.side = 1 and f.typtype <> 'd'
           cross join based b join pg_catalog.pg_type t on t.oid = b.base and t.typtype <> 'd'
     where b.side = 2
$$;

-- A bound column must be of the type of each argument that it is bound to: otherwise every call would fail.
create or replace function agent_internal.check_bound_types(_relation regclass, _tools jsonb, _bind jsonb)
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _wrong record;
begin
    select b.key as argument, a.attname as column, format_type(a.atttypid, a.atttypmod) as given, t ->> 'name' as tool,
           coalesce(to_regtype(g ->> 'type')::text, p.schema ->> 'type') as wanted
      into _wrong
      from jsonb_each_text(_bind) b
           join pg_catalog.pg_attribute a on a.attrelid = _relation and a.attname = b.value and a.attnum > 0 and not a.attisdropped
           cross join jsonb_array_elements(_tools) t
           left join lateral jsonb_array_elements(coalesce(t -> 'arguments', '[]')) g on g ->> 'name' = b.key
           left join lateral (select o.input_schema -> 'properties' -> b.key as schema from agent.tool o
                              where o.name = t ->> 'name' and o.scope = coalesce(t ->> 'scope', '')) p on true
     where case when g is not null then not agent_internal.fits_type(a.atttypid, to_regtype(g ->> 'type'))
                when p.schema ->> 'type' in ('integer', 'number') then not agent_internal.fits_type(a.atttypid, 'numeric'::regtype)
                when p.schema ->> 'type' = 'boolean' then not agent_internal.fits_type(a.atttypid, 'boolean'::regtype)
                else false end
     limit 1;
    if found then
        raise exception 'bind: column "%" of % is of type %, expected %', _wrong.column, _relation, _wrong.given, _wrong.wanted
            using errcode = 'WA011', detail = format('It is bound to argument "%s" of tool "%s".', _wrong.argument, _wrong.tool),
                  hint = 'Bind a column of this type, or use a function that takes the type of the column.';
    end if;
end;
$$;

-- The role that an agent runs as must be able to read what the agent is shown, and the bound arguments of its tools:
-- the WAL has no privileges.
create or replace function agent_internal.check_visibility(_relation regclass, _columns text[], _run_as name)
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _hidden text;
begin
    select a.attname into _hidden
      from pg_catalog.pg_attribute a
     where a.attrelid = _relation and a.attnum > 0 and not a.attisdropped
       and (_columns is null or a.attname = any (_columns) or a.attname = any (agent_internal.key_columns(_relation)))
       and not has_column_privilege(_run_as, _relation, a.attnum, 'select')
     limit 1;
    if _hidden is not null then
        raise exception 'role "%" lacks SELECT on column "%" of %', _run_as, _hidden, _relation
            using errcode = '42501',
                  hint = format('Run grant select on %s to %I, or list the columns to show in columns=[...].', _relation, _run_as);
    end if;
end;
$$;

-- Whether the current role may change an attachment of *_attached_by*: it is that role, a member of it, or the owner
-- of this schema.  The role might have been dropped.
create or replace function agent_internal.may_change(_attached_by name)
    returns boolean
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select exists (select from pg_catalog.pg_roles where rolname = _attached_by and pg_has_role(oid, 'member'))
           or exists (select from pg_catalog.pg_class
                       where oid = 'agent.attachment'::regclass and pg_has_role(relowner, 'member'))
$$;

-- Check an attachment with the rights of the role that attaches, and set what follows from it.
--
-- `definition` is set only here: a value in the statement is overwritten.
--
-- Functions are called by their qualified name, and no operator is used: the search_path is still that of the role
-- that attaches, which can have functions and operators of its own before those of PostgreSQL.
create or replace function agent_internal.check_attachment()
    returns trigger
    language plpgsql
as $$
begin
    new := agent_internal.checked_versions(tg_op, old, new, agent_internal.schemas_of_caller());
    return new;
end;
$$;

-- Whether this is the transaction of a trial, which never commits and refuses rows of other tenants.
create or replace function agent_internal.is_trial()
    returns boolean
    language sql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$ select exists (select from agent_internal.trial) $$;

-- Who may not change an agent may not attach it either: what a table says would be done as that agent, with what it remembers.
create or replace function agent_internal.check_use(_tenant text, _agent text)
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _other agent.attachment;
    _flow  agent.workflow_version;
begin
    select * into _other from agent.attachment a
     where a.tenant = _tenant and a.agent = _agent and not agent_internal.may_change(a.attached_by) limit 1;
    if found then
        raise exception 'agent "%" is used by attachment "%", which belongs to role "%"', _agent, _other.name, _other.attached_by
            using errcode = '42501', hint = format('Connect as %I, as a member of it, or as the owner of the schema.', _other.attached_by);
    end if;
    select v.* into _flow
      from agent.workflow w
           join agent.workflow_version v on v.tenant = w.tenant and v.workflow = w.name and v.version = w.version
           join agent.workflow_node n on n.tenant = v.tenant and n.workflow = v.workflow and n.version = v.version
     where w.tenant = _tenant and n.settings ->> 'agent' = _agent and not agent_internal.may_change(v.run_as) limit 1;
    if found then
        raise exception 'agent "%" is used by workflow "%", which runs as role "%"', _agent, _flow.workflow, _flow.run_as
            using errcode = '42501', hint = format('Connect as %I, as a member of it, or as the owner of the schema.', _flow.run_as);
    end if;
end;
$$;

-- Store the new version and update the publication, with the rights of the schema's owner.  No other role may execute
-- this function, so it cannot be a trigger of another table.  In a trial the table is not published: that locks it, and
-- the transaction lasts as long as a model takes.
create or replace function agent_internal.freeze_attachment()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '10s'
as $$
declare
    _lost text;
begin
    if tg_op = 'INSERT' or new.version <> old.version then
        insert into agent.attachment_version (attachment_id, version, definition)
        values (new.id, new.version, new.definition)
        on conflict do nothing;  -- that of a canary which is promoted: the same definition
    end if;
    if tg_op = 'UPDATE' then
        perform agent_internal.follow_canary(old, new);
    end if;
    if tg_op = 'INSERT' or new.relation <> old.relation then
        perform agent_internal.warn_of_code(new.relation, new.run_as);
    end if;
    if tg_op = 'INSERT' and new.backfill then
        insert into agent.backfill (attachment_id, version) values (new.id, new.version);
    end if;
    if tg_op = 'UPDATE' and (new.version <> old.version or old.paused and not new.paused) then
        perform agent_internal.repin_runs(new.id, new.version);
    end if;
    -- Not to pause: that must not wait for a lock.  A resumed one can need updates that are not published: see
    -- agent_internal.check_identities().
    if not exists (select from agent_internal.trial)
       and (tg_op = 'INSERT' or new.version <> old.version or old.paused and not new.paused) then
        perform agent_internal.request_for_attachments(new.relation);
        perform agent_internal.publish_relation(new.relation);
    end if;
    -- Now that of two which attach at the same time, the second has waited.
    if new.embeds and (tg_op = 'INSERT' or new.version <> old.version) then
        perform agent_internal.check_only_embedder(new);
    end if;
    if tg_op = 'UPDATE' and old.relation <> new.relation then
        perform agent_internal.request_for_attachments(old.relation);
        perform agent_internal.publish_relation(old.relation);
    end if;
    if not new.paused and (tg_op = 'INSERT' or new.version <> old.version or old.paused) then
        _lost := agent_internal.drift_of(new.definition);
        if _lost is not null then
            raise exception '%', _lost using errcode = 'WA013';
        end if;
    end if;
    return null;
end;
$$;

-- The definition that runs use, as of now.
--
-- Args: _attachment: its `definition` is NULL, or the previous one, of which the condition is still true.
create or replace function agent_internal.define(_attachment agent.attachment)
    returns jsonb
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set quote_all_identifiers = off
as $$
declare
    _agent agent.agent;
    _tools jsonb;
    _names text[];
    _used  text[] := '{}';
    _old   text[] := '{}';
    _whole boolean := false;
    _compiled text;
    _filter text;
    _finish text;
    _absent text[] := '{}';
    _instead jsonb;
    _second agent.agent;
    _given agent.agent;
    _cascade jsonb := '{}';
begin
    select * into _agent from agent.agent where tenant = _attachment.tenant and name = _attachment.agent;
    if not found then
        raise exception 'agent "%" does not exist', _attachment.agent
            using errcode = 'WA013',
                  hint = agent_internal.suggest(_attachment.agent, (select array_agg(name) from agent.agent where tenant = _attachment.tenant));
    end if;
    _given := _agent;
    _instead := agent_internal.fallback_of(_agent);
    _agent := agent_internal.effective_agent(_agent);
    perform agent_internal.check_model(_agent.model, _agent.tenant, '', _attachment.embeds);
    perform agent_internal.check_cascade(_agent.cascade, _agent.model, _agent.fallback, _agent.tenant);
    if _agent.fallback is not null then
        perform agent_internal.check_fallback(_agent.model, _agent.fallback, _agent.tenant);
    end if;
    if _attachment.condition is not null and _attachment.definition is not null then
        _used := array(select jsonb_array_elements_text(_attachment.definition -> 'condition_columns'));
        _old := array(select jsonb_array_elements_text(_attachment.definition -> 'old_columns')
                       union select jsonb_array_elements_text(_attachment.definition -> 'missing_old') order by 1);
        _whole := (_attachment.definition ->> 'whole_row')::boolean;
        _compiled := _attachment.definition ->> 'condition';
        perform agent_internal.check_columns(_attachment.relation, _used, 'the condition');
        perform agent_internal.check_streamed(_attachment.relation, _used, 'the condition', 'WA012');
    elsif _attachment.condition is not null then
        select columns, old_columns, whole_row, compiled into _used, _old, _whole, _compiled
          from agent_internal.compile_condition(_attachment.relation, _attachment.condition, _attachment.search_path);
    end if;
    if _attachment.ops <> '{insert}' then
        _absent := array(select unnest(_old) except select unnest(agent_internal.identity_columns(_attachment.relation)) order by 1);
    end if;
    if _absent <> '{}' then
        raise warning 'the condition of "%" reads % from old, which is NULL: the replica identity of % does not include it',
            _attachment.name, (select string_agg(format('"%s"', c), ', ') from unnest(_absent) c),
            agent_internal.without_identity(_attachment.relation, _absent[1])
            using hint = format('alter table %s replica identity full', agent_internal.without_identity(_attachment.relation, _absent[1]));
    end if;
    if _attachment.server_filter then
        if _attachment.definition is null then
            _filter := agent_internal.row_filter(_attachment.relation, _compiled);
        else
            _filter := _attachment.definition ->> 'row_filter';
            if _filter is null then
                raise exception 'server_filter requires that the condition is compiled, and role "%" wrote it',
                    _attachment.attached_by
                    using errcode = 'WA012', hint = 'Let that role set server_filter, or change the condition, too.';
            end if;
        end if;
        if _filter is null or _attachment.ops <> '{insert}' or _attachment.corrections then
            raise exception 'server_filter requires on=insert, no corrections and leakproof comparisons on new'
                using errcode = 'WA012', hint = 'Omit server_filter: walagent then evaluates the condition itself.';
        end if;
    end if;
    _names := _agent.tools;
    if _attachment.writes <> '{}' and not 'update_row' = any (_names) then
        _names := _names || '{update_row}';
    end if;
    select coalesce(jsonb_agg(agent_internal.resolve_tool(t, _attachment) order by n), '[]') into _tools
      from unnest(_names) with ordinality as x (t, n);
    _tools := agent_internal.with_approvals(_tools, _agent);
    if _agent.tool_choice not in ('auto', 'required') and not _agent.tool_choice = any (_names) then
        raise exception 'tool_choice "%" is not among the tools', _agent.tool_choice
            using errcode = 'WA011', hint = agent_internal.suggest(_agent.tool_choice, _names || '{auto,required}');
    end if;
    perform agent_internal.check_names('approve', _attachment.approve, _names);
    -- Also a tool that the agent does not have yet: with it, and without the word, the agent would be refused.
    perform agent_internal.check_names('lets_out', array(
        select w from unnest(_attachment.lets_out) w
         where (agent_internal.tool_of(_attachment.tenant, w)).name is null
           and agent_internal.find_function(w, _attachment.search_path) is null), _names);
    perform agent_internal.check_ways_out(_tools, _attachment.lets_out);
    perform agent_internal.check_tools(_tools, _attachment.bind);
    perform agent_internal.check_bound_types(_attachment.relation, _tools, _attachment.bind);
    perform agent_internal.check_model(_agent, _tools);
    perform agent_internal.check_tier(_agent);
    if _attachment.relation <> 'agent.event'::regclass then  -- turns ask the last model alone: people wait for them
        _cascade := agent_internal.cascade_of(_given);
        perform agent_internal.check_cascade(_agent, _tools, _cascade -> 'stages');
    end if;
    if _agent.reuse is not null then
        perform agent_internal.check_reuse(_agent, _tools, agent_internal.key_columns(_attachment.relation));
    end if;
    if _agent.fallback is not null then
        _second := _agent;
        _second.model := _agent.fallback;
        perform agent_internal.check_model(_second, _tools);
    end if;
    if _attachment.embeds then
        perform agent_internal.check_embedder(_agent, _attachment, _names);
    end if;
    if _agent.rows_per_request is not null then
        perform agent_internal.check_rows_per_request(_agent, _tools);
        perform agent_internal.check_rows_apart(_attachment.relation, _attachment.writes);
    end if;
    _finish := coalesce(_agent.finish, case
        when _agent.tool_choice not in ('auto', 'required') then 'after_call'
        when 'update_row' = any (_names) and _names <@ '{update_row,do_nothing}' then 'after_call'
        else 'answer' end);
    return to_jsonb(_attachment) - '{paused,paused_reason,paused_by,attached_at,source,definition,debounce,approval_ttl,canary,canary_share,canary_definition,canary_shadow}'::text[]
        - case when to_jsonb(_attachment) -> 'turns' = 'null' then 'turns' else '' end || jsonb_build_object(
        'relation_oid', _attachment.relation::oid::bigint,
        'schema', (select nspname from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
                    where c.oid = _attachment.relation),
        'table', (select relname from pg_catalog.pg_class where oid = _attachment.relation),
        'key_columns', agent_internal.key_columns(_attachment.relation),
        'condition', _compiled, 'condition_columns', _used, 'whole_row', _whole,
        -- What it reads of the old row, and the WAL has: without it, the result would differ.
        'old_columns', array(select unnest(_old) intersect select unnest(agent_internal.identity_columns(_attachment.relation)) order by 1),
        'missing_old', to_jsonb(_absent),
        'json_columns', agent_internal.json_columns(_attachment.relation),
        'row_filter', _filter,
        'dimensions', case when _attachment.embeds then (agent_internal.model_of(_agent.tenant, _agent.model)).dimensions end,
        'debounce_seconds', extract(epoch from _attachment.debounce),
        'approval_seconds', extract(epoch from _attachment.approval_ttl),
        'agent_version', _agent.version,
        'model', _agent.model, 'system_prompt', _agent.system_prompt, 'tools', _tools,
        'tool_choice', agent_internal.tool_name(_agent.tool_choice), 'examples', _agent.examples, 'parameters', _agent.parameters,
        'max_steps', _agent.max_steps, 'max_tokens', _agent.max_tokens, 'max_cost', _agent.max_cost,
        'max_seconds', case when _agent.tier = 'flex' then greatest(_agent.max_seconds, 1800) else _agent.max_seconds end,
        'max_attempts', _agent.max_attempts,
        'max_output_tokens', _agent.max_output_tokens, 'finish', _finish)
        || agent_internal.behavior_of(_agent) || _instead || _cascade;
end;
$$;

-- Before an attachment is stored: check it, with the rights of the role that inserts or updates it.
--
-- An unchanged condition of another role is not compiled again.  What was recorded stays, even if the type of a column
-- has changed since: if it can no longer be evaluated, the reader pauses the attachment with the reason, and its author
-- can resume it.
create or replace function agent_internal.checked_attachment(_op text, old agent.attachment, new agent.attachment, _schemas name[])
    returns agent.attachment
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set quote_all_identifiers = off
as $$
declare
    _same boolean := false;
begin
    if not new.paused then
        new.paused_reason := null;
        new.paused_by := null;
    end if;
    if _op = 'UPDATE' then
        new.id := old.id;
        new.tenant := old.tenant;
        new.attached_by := old.attached_by;
        new.attached_at := old.attached_at;
        if not agent_internal.may_change(old.attached_by) then
            raise exception 'attachment "%" belongs to role "%"', old.name, old.attached_by
                using errcode = '42501', hint = format('Connect as %I, as a member of it, or as the owner of the schema.', old.attached_by);
        end if;
        -- Pausing changes neither what matches nor what a run does: no new version.  Resuming checks the attachment
        -- again: what has changed in its table is now rejected, or becomes part of the definition.
        _same := to_jsonb(new) - '{paused,paused_reason,paused_by,definition,canary,canary_share,canary_definition,canary_shadow}'::text[]
                 = to_jsonb(old) - '{paused,paused_reason,paused_by,definition,canary,canary_share,canary_definition,canary_shadow}'::text[];
        if _same and (new.paused or not old.paused) then
            new.definition := old.definition;
            return new;
        end if;
        if new.relation = old.relation and not exists (select from pg_catalog.pg_class where oid = new.relation) then
            raise exception 'attachment "%": %', old.name, agent_internal.drop_message(old.definition)
                using errcode = 'WA013', hint = agent_internal.reattach_message(old);
        end if;
        new.version := case when _same then old.version else agent_internal.next_version(old) end;
        -- A file names its table, and a table of that name can be a new one, which only a person may accept.
        if new.relation <> old.relation and not old.paused
           and not exists (select from pg_catalog.pg_class where oid = old.relation) then
            new.paused := true;
            new.paused_reason := agent_internal.drop_message(old.definition) || '; walagent agents resume accepts it';
        end if;
    else
        new.name := coalesce(new.name, (select relname from pg_catalog.pg_class where oid = new.relation));
        new.attached_by := current_user;
        new.attached_at := now();
        new.version := 1;
        new.search_path := coalesce(new.search_path, agent_internal.path_of(_schemas));
    end if;
    if _op = 'INSERT' or new.agent <> old.agent then
        perform agent_internal.check_use(new.tenant, new.agent);
    end if;
    if not exists (select from pg_catalog.pg_roles r where r.rolname = new.run_as) then
        raise exception 'run_as: role "%" does not exist', new.run_as
            using errcode = '42704', hint = format('Run create role %I, or set another run_as.', new.run_as);
    end if;
    if not pg_has_role(current_user, new.run_as, 'member') then
        raise exception 'must be a member of role "%" to attach an agent that runs as it', new.run_as
            using errcode = '42501';
    end if;
    perform agent_internal.check_relation(new.relation, case when new.corrections then new.ops || '{update}' else new.ops end);
    perform agent_internal.check_columns(new.relation, new.columns, 'columns');
    if new.relation = to_regclass('agent.event') then
        new := agent_internal.checked_turns(new);  -- membership decides what the agent sees
    else
        perform agent_internal.check_visibility(
            new.relation,
            case when new.columns is not null then new.columns || array(select value from jsonb_each_text(new.bind)) end,
            new.run_as);
    end if;
    perform agent_internal.check_columns(new.relation, new.writes, 'writes');
    perform agent_internal.check_writable(new.relation, new.writes);
    if new.only_unchanged and new.writes = '{}' then
        raise exception 'only_unchanged requires writes: it is about update_row' using errcode = 'WA013';
    end if;
    if new.embeds then
        perform agent_internal.check_embedding(new);
    end if;
    perform agent_internal.check_columns(new.relation, new.ordering_key, 'ordering_key');
    perform agent_internal.check_streamed(new.relation, agent_internal.key_columns(new.relation), 'the primary key');
    perform agent_internal.check_streamed(new.relation, new.columns, 'columns');
    perform agent_internal.check_streamed(new.relation, new.ordering_key, 'ordering_key');
    perform agent_internal.check_streamed(new.relation, array(select value from jsonb_each_text(new.bind)), 'bind');
    if new.tenant_column is not null then
        if (_op = 'INSERT' or new.tenant_column is distinct from old.tenant_column or new.relation <> old.relation)
           and not agent_internal.is_trial() and (agent_internal.identity()).named then  -- it is of one tenant, and would be the agent in all of them
            raise exception 'tenant: principal "%" is of tenant "%", and rows could name another one',
                agent.current_principal(), agent.current_tenant()
                using errcode = '42501', hint = 'Leave out tenant, or let the operator attach the agent.';
        end if;
        perform agent_internal.check_columns(new.relation, array[new.tenant_column], 'tenant');
        perform agent_internal.check_streamed(new.relation, array[new.tenant_column], 'tenant');
        if 'delete' = any (new.ops) and new.tenant_column <> all (agent_internal.identity_columns(new.relation)) then
            raise exception 'tenant: the WAL has no column "%" of deleted rows of %: its replica identity does not include it',
                new.tenant_column, new.relation
                using errcode = 'WA013', hint = format('alter table %s replica identity full',
                                                       agent_internal.without_identity(new.relation, new.tenant_column));
        end if;
    end if;
    if new.backfill and agent_internal.key_columns(new.relation) = '{}' then
        raise exception 'backfill requires a primary key on %', new.relation using errcode = 'WA013';
    end if;
    -- agent_internal.define() compiles a condition whose recorded definition it is not given.
    new.definition := case
        when _op = 'UPDATE' and current_user <> old.attached_by
             and new.condition = old.condition and new.search_path = old.search_path then old.definition end;
    new.definition := agent_internal.define(new);
    if _op = 'UPDATE' and old.embeds and new.embeds then
        perform agent_internal.check_same_embeddings(new.name, old.definition, new.definition);
    end if;
    if not agent_internal.is_utf8(new.definition::text) then
        raise exception 'attachment "%" contains bytes that are not valid UTF-8', new.name
            using errcode = 'WA013', hint = 'Set client_encoding to the encoding of the client, or use UTF-8.';
    end if;
    if _same and new.definition <> old.definition then
        new.version := agent_internal.next_version(old);
        new.definition := new.definition || jsonb_build_object('version', new.version);
    end if;
    return new;
end;
$$;

create or replace function agent_internal.check_relation(_relation regclass, _ops text[])
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _c   pg_catalog.pg_class;
    _kin regclass;
begin
    select * into _c from pg_catalog.pg_class where oid = _relation;
    if _c.oid is null then
        raise exception 'table with OID % does not exist', _relation::oid::bigint using errcode = 'WA013';
    elsif _c.relkind not in ('r', 'p') then
        raise exception '% is not a table', _relation
            using errcode = 'WA013', detail = 'Only the rows of tables are written to the WAL.';
    elsif _c.relpersistence <> 'p' then
        raise exception '% is % and not written to the WAL', _relation,
            case _c.relpersistence when 'u' then 'unlogged' else 'temporary' end using errcode = 'WA013';
    elsif _relation = 'agent.event'::regclass then
        return;  -- the one table of ours that agents attach to
    elsif _c.relnamespace in ('agent'::regnamespace, 'agent_internal'::regnamespace, 'pg_catalog'::regnamespace) then
        raise exception 'cannot attach to system table %', _relation using errcode = 'WA013';
    end if;
    if _c.relkind = 'r' then
        select i.inhrelid into _kin from pg_catalog.pg_inherits i where i.inhparent = _relation order by 1 limit 1;
        if found then
            raise exception 'cannot attach to %: its rows can be in %, which inherits from it', _relation, _kin
                using errcode = 'WA013', detail = 'The WAL names the table that has the row, so a row of a child would start no run.',
                      hint = 'Attach to each child, or make it a partitioned table.';
        end if;
    end if;
    select a.relation into _kin
      from agent.attachment a
     where a.relation <> _relation
       and (a.relation in (select relid from pg_partition_ancestors(_relation) p (relid))
            or _relation in (select relid from pg_partition_ancestors(a.relation) p (relid)));
    if found then
        raise exception 'cannot attach to a partition and its parent: % is attached', _kin
            using errcode = 'WA013', hint = 'Attach to the parent alone, with a condition.';
    end if;
    if _ops = '{insert}' then
        return;
    end if;
    -- All operations but insert are published together, also for truncate alone.
    if _c.relreplident = 'n'
       or _c.relreplident = 'd' and not exists (select from pg_catalog.pg_index where indrelid = _relation and indisprimary and indimmediate)
       or _c.relreplident = 'i' and not exists (select from pg_catalog.pg_index where indrelid = _relation and indisreplident) then
        raise exception '% has no replica identity', _relation
            using errcode = 'WA013', detail = 'Once its updates are published, UPDATE and DELETE of the application would fail.',
                  hint = format('alter table %s add primary key (...), or: alter table %s replica identity full', _relation, _relation);
    end if;
    if _c.relreplident = 'f' and exists (select from pg_catalog.pg_attribute
                                          where attrelid = _relation and attgenerated = 'v' and not attisdropped) then
        raise exception '% has replica identity full and a virtual generated column', _relation
            using errcode = 'WA013', detail = 'Once it is published, UPDATE of the application would fail.',
                  hint = 'Make the column stored, or use the primary key as replica identity.';
    end if;
end;
$$;
