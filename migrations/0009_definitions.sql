-- The definition of an attachment: checked, and frozen, when the attachment is inserted or updated.
--
-- agent.attach(), plain DML on agent.attachment and `walagent apply` end in the same rows, so the checks are
-- triggers.  They run with the rights of the role that attaches: it cannot attach what it cannot see or call.

create function agent_internal.check_columns(_relation regclass, _columns text[], _what text)
    returns void
    language plpgsql
    stable
as $$
declare
    _missing text;
begin
    select c into _missing
      from unnest(_columns) c
     where not exists (select from pg_catalog.pg_attribute
                        where attrelid = _relation and attname = c and attnum > 0 and not attisdropped)
     limit 1;
    if _missing is not null then
        raise exception '%: column "%" of % does not exist', _what, _missing, _relation
            using errcode = 'WA013',
                  hint = agent_internal.suggest(_missing, (select array_agg(attname::text) from pg_catalog.pg_attribute
                                                   where attrelid = _relation and attnum > 0 and not attisdropped));
    end if;
end;
$$;

-- Reject tables whose changes are not in the WAL, or whose publication would break the application.
create function agent_internal.check_relation(_relation regclass, _ops text[])
    returns void
    language plpgsql
    stable
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
    elsif _c.relnamespace in ('agent'::regnamespace, 'agent_internal'::regnamespace, 'pg_catalog'::regnamespace) then
        raise exception 'cannot attach to system table %', _relation using errcode = 'WA013';
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
       or _c.relreplident = 'd' and agent_internal.key_columns(_relation) = '{}'
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

-- The role that an agent runs as must be able to read what the agent is shown, and the bound arguments of its tools:
-- the WAL has no privileges.
create function agent_internal.check_visibility(_relation regclass, _columns text[], _run_as name)
    returns void
    language plpgsql
    stable
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
create function agent_internal.may_change(_attached_by name)
    returns boolean
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select exists (select from pg_catalog.pg_roles where rolname = _attached_by and pg_has_role(oid, 'member'))
           or exists (select from pg_catalog.pg_class
                       where oid = 'agent.attachment'::regclass and pg_has_role(relowner, 'member'))
$$;

create function agent_internal.check_model(_name text)
    returns void
    language plpgsql
    stable
as $$
begin
    if not exists (select from agent.model where name = _name and enabled) then
        raise exception 'model "%" does not exist or is not enabled', _name
            using errcode = 'WA014',
                  hint = agent_internal.suggest(_name, (select array_agg(name) from agent.model where enabled));
    end if;
end;
$$;

-- The definition that runs use, as of now.
create function agent_internal.define(_attachment agent.attachment)
    returns jsonb
    language plpgsql
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
begin
    select * into _agent from agent.agent where name = _attachment.agent;
    if found then
        perform agent_internal.check_model(_agent.model);
    end if;
    if _attachment.condition is not null then
        select columns, old_columns, whole_row, compiled into _used, _old, _whole, _compiled
          from agent_internal.compile_condition(_attachment.relation, _attachment.condition, _attachment.search_path);
    end if;
    if _attachment.server_filter then
        _filter := agent_internal.row_filter(_attachment.relation, _compiled);
        if _filter is null or _attachment.ops <> '{insert}' then
            raise exception 'server_filter requires on=insert and leakproof comparisons on new'
                using errcode = 'WA012', hint = 'Omit server_filter: walagent then evaluates the condition itself.';
        end if;
    end if;
    _names := _agent.tools;
    if _attachment.writes <> '{}' and not 'update_row' = any (_names) then
        _names := _names || '{update_row}';
    end if;
    select coalesce(jsonb_agg(agent_internal.resolve_tool(t, _attachment) order by n), '[]') into _tools
      from unnest(_names) with ordinality as x (t, n);
    if _agent.tool_choice not in ('auto', 'required') and not _agent.tool_choice = any (_names) then
        raise exception 'tool_choice "%" is not among the tools', _agent.tool_choice
            using errcode = 'WA011', hint = agent_internal.suggest(_agent.tool_choice, _names || '{auto,required}');
    end if;
    perform agent_internal.check_approve(_attachment.approve, _names);
    perform agent_internal.check_tools(_tools, _attachment.bind);
    return to_jsonb(_attachment) - '{paused,paused_reason,attached_at,source,definition}'::text[] || jsonb_build_object(
        'relation_oid', _attachment.relation::oid::bigint,
        'schema', (select nspname from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
                    where c.oid = _attachment.relation),
        'table', (select relname from pg_catalog.pg_class where oid = _attachment.relation),
        'key_columns', agent_internal.key_columns(_attachment.relation),
        'condition', _compiled, 'condition_columns', _used, 'whole_row', _whole,
        -- What it reads of the old row, and the WAL has: without it, the result would differ.
        'old_columns', array(select unnest(_old) intersect select unnest(agent_internal.identity_columns(_attachment.relation)) order by 1),
        'json_columns', agent_internal.json_columns(_attachment.relation),
        'row_filter', _filter,
        'debounce_seconds', extract(epoch from _attachment.debounce),
        'approval_seconds', extract(epoch from _attachment.approval_ttl),
        'agent_version', _agent.version,
        'model', _agent.model, 'system_prompt', _agent.system_prompt, 'tools', _tools,
        'tool_choice', agent_internal.tool_name(_agent.tool_choice), 'examples', _agent.examples, 'parameters', _agent.parameters,
        'max_steps', _agent.max_steps, 'max_tokens', _agent.max_tokens, 'max_cost', _agent.max_cost,
        'max_seconds', _agent.max_seconds, 'max_attempts', _agent.max_attempts,
        'max_output_tokens', _agent.max_output_tokens);
end;
$$;

create function agent_internal.checked_attachment(_op text, old agent.attachment, new agent.attachment, _schemas name[])
    returns agent.attachment
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _same boolean := false;
begin
    if _op = 'UPDATE' then
        new.id := old.id;
        new.attached_by := old.attached_by;
        new.attached_at := old.attached_at;
        if not agent_internal.may_change(old.attached_by) then
            raise exception 'attachment "%" belongs to role "%"', old.name, old.attached_by using errcode = '42501';
        end if;
        -- Pausing changes neither what matches nor what a run does: no new version.  Resuming checks the attachment
        -- again: what has changed in its table is now rejected, or becomes part of the definition.
        _same := to_jsonb(new) - '{paused,paused_reason,definition}'::text[]
                 = to_jsonb(old) - '{paused,paused_reason,definition}'::text[];
        if _same and (new.paused or not old.paused) then
            new.definition := old.definition;
            return new;
        end if;
        if new.relation = old.relation and not exists (select from pg_catalog.pg_class where oid = new.relation) then
            raise exception 'attachment "%": %', old.name, agent_internal.drop_message(old.definition)
                using errcode = 'WA013', hint = agent_internal.reattach_message(old);
        end if;
        new.version := old.version + case when _same then 0 else 1 end;
        -- A file names its table, and a table of that name can be a new one, which only a person may accept.
        if new.relation <> old.relation and not old.paused
           and not exists (select from pg_catalog.pg_class where oid = old.relation) then
            new.paused := true;
            new.paused_reason := agent_internal.drop_message(old.definition) || '; walagent resume accepts it';
        end if;
    else
        new.attached_by := current_user;
        new.attached_at := now();
        new.version := 1;
        new.search_path := coalesce(new.search_path, (select string_agg(quote_ident(s), ', ' order by n)
                                                        from unnest(_schemas) with ordinality as x (s, n)), '');
    end if;
    if not pg_has_role(current_user, new.run_as, 'member') then
        raise exception 'must be a member of role "%" to attach an agent that runs as it', new.run_as
            using errcode = '42501';
    end if;
    perform agent_internal.check_relation(new.relation, new.ops);
    perform agent_internal.check_columns(new.relation, new.columns, 'columns');
    perform agent_internal.check_visibility(
        new.relation,
        case when new.columns is not null then new.columns || array(select value from jsonb_each_text(new.bind)) end,
        new.run_as);
    perform agent_internal.check_columns(new.relation, new.writes, 'writes');
    perform agent_internal.check_columns(new.relation, new.ordering_key, 'ordering_key');
    perform agent_internal.check_streamed(new.relation, agent_internal.key_columns(new.relation), 'the primary key');
    perform agent_internal.check_streamed(new.relation, new.columns, 'columns');
    perform agent_internal.check_streamed(new.relation, new.ordering_key, 'ordering_key');
    perform agent_internal.check_streamed(new.relation, array(select value from jsonb_each_text(new.bind)), 'bind');
    if new.backfill and agent_internal.key_columns(new.relation) = '{}' then
        raise exception 'backfill requires a primary key on %', new.relation using errcode = 'WA013';
    end if;
    new.definition := agent_internal.define(new);
    if not agent_internal.is_utf8(new.definition::text) then
        raise exception 'attachment "%" contains bytes that are not valid UTF-8', new.name
            using errcode = 'WA013', hint = 'Set client_encoding to the encoding of the client, or use UTF-8.';
    end if;
    if _same and new.definition <> old.definition then
        new.version := old.version + 1;
        new.definition := new.definition || jsonb_build_object('version', new.version);
    end if;
    return new;
end;
$$;

-- Check an attachment with the rights of the role that attaches, and set what follows from it.
--
-- `definition` is set only here: a value in the statement is overwritten.
--
-- Functions are called by their qualified name, and no operator is used: the search_path is still that of the role
-- that attaches, which can have functions and operators of its own before those of PostgreSQL.
create function agent_internal.check_attachment()
    returns trigger
    language plpgsql
as $$
begin
    new := agent_internal.checked_attachment(tg_op, old, new, pg_catalog.current_schemas(false));
    return new;
end;
$$;
create trigger check_attachment
    before insert or update on agent.attachment
    for each row execute function agent_internal.check_attachment();
