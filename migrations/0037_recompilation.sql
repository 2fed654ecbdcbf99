-- Conditions are compiled with the rights of who wrote them, and of nobody else.
--
-- To parse a constant is to execute code: the input function of its type, and the checks of a domain.

-- Before an attachment is stored: check it, with the rights of the role that inserts or updates it.
--
-- An unchanged condition of another role is not compiled again.  What was recorded stays, even if the type of a column
-- has changed since: if it can no longer be evaluated, the reader pauses the attachment with the reason, and its author
-- can resume it.
create or replace function agent_internal.checked_attachment(_op text, old agent.attachment, new agent.attachment, _schemas name[])
    returns agent.attachment
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _same boolean := false;
begin
    if _op = 'UPDATE' then
        new.id := old.id;
        new.tenant := old.tenant;
        new.attached_by := old.attached_by;
        new.attached_at := old.attached_at;
        if not agent_internal.may_change(old.attached_by) then
            raise exception 'attachment "%" belongs to role "%"', old.name, old.attached_by using errcode = '42501';
        end if;
        -- Pausing changes neither what matches nor what a run does: no new version.  Resuming checks the attachment
        -- again: what has changed in its table is now rejected, or becomes part of the definition.
        _same := to_jsonb(new) - '{paused,paused_reason,paused_by,definition}'::text[]
                 = to_jsonb(old) - '{paused,paused_reason,paused_by,definition}'::text[];
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
    if new.relation = to_regclass('agent.event') then
        new := agent_internal.checked_turns(new);  -- membership decides what the agent sees
    else
        perform agent_internal.check_visibility(
            new.relation,
            case when new.columns is not null then new.columns || array(select value from jsonb_each_text(new.bind)) end,
            new.run_as);
    end if;
    perform agent_internal.check_columns(new.relation, new.writes, 'writes');
    perform agent_internal.check_columns(new.relation, new.ordering_key, 'ordering_key');
    perform agent_internal.check_streamed(new.relation, agent_internal.key_columns(new.relation), 'the primary key');
    perform agent_internal.check_streamed(new.relation, new.columns, 'columns');
    perform agent_internal.check_streamed(new.relation, new.ordering_key, 'ordering_key');
    perform agent_internal.check_streamed(new.relation, array(select value from jsonb_each_text(new.bind)), 'bind');
    if new.tenant_column is not null then
        perform agent_internal.check_columns(new.relation, array[new.tenant_column], 'tenant');
        perform agent_internal.check_streamed(new.relation, array[new.tenant_column], 'tenant');
        if 'delete' = any (new.ops) and new.tenant_column <> all (agent_internal.identity_columns(new.relation)) then
            raise exception 'tenant: the WAL has no column "%" of deleted rows of %: its replica identity does not include it',
                new.tenant_column, new.relation
                using errcode = 'WA013', hint = format('alter table %s replica identity full', new.relation);
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
