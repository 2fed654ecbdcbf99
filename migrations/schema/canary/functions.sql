-- A canary is a second version of an attachment.  It is made as attaching makes a version, and a share of the ordering keys
-- gets it, from the commit of agent.canary() on to that of agent.promote_canary() or agent.roll_back_canary().

-- The settings that a canary can change: those that decide neither which changes match nor how their runs queue.
create or replace function agent_internal.canary_keys()
    returns setof text
    language sql
    immutable
    set search_path = pg_catalog, pg_temp
as $$
    select k.key from agent_internal.attach_keys() k where k.of = 'agent'
    union all select unnest('{agent,writes,bind,approve,lets_out,query_as,only_unchanged,priority,approval_ttl}'::text[])
$$;
comment on function agent_internal.canary_keys() is 'The settings that a canary can change';

-- The number of the next version of an attachment.  A canary that was rolled back has had the number after the present one.
create or replace function agent_internal.next_version(_attachment agent.attachment)
    returns integer
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select greatest(_attachment.version, (select max(v.version) from agent.attachment_version v where v.attachment_id = _attachment.id)) + 1
$$;
comment on function agent_internal.next_version(agent.attachment) is 'The number of the next version of an attachment';

-- Parse a rule such as 'failures > 2 * baseline or corrections > baseline + 0.05 or latency > 30'.  Nothing of it is executed.
--
-- Returns an array of its clauses: text, figure, times (NULL: without baseline), plus.  Raises WA010 with what is not a clause.
create or replace function agent_internal.parse_rule(_rule text)
    returns jsonb
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
    set standard_conforming_strings = on
as $$
declare
    _figures constant text[] := '{failures,corrections,cost,latency,calls}';
    _clauses jsonb := '[]';
    _text    text;
    _part    text[];
begin
    if _rule is null then
        return _clauses;
    elsif length(_rule) > 1000 then
        raise exception 'rollback_if has % characters, expected 1000 at most', length(_rule) using errcode = 'WA010';
    end if;
    foreach _text in array regexp_split_to_array(lower(btrim(_rule)), '\s+or\s+') loop
        _part := regexp_match(_text, '^([a-z_]+)\s*>\s*(?:(?:(\d{1,9}(?:\.\d{1,9})?)\s*\*\s*)?(baseline)(?:\s*([+-])\s*(\d{1,9}(?:\.\d{1,9})?))?|(\d{1,9}(?:\.\d{1,9})?))$');
        if _part is null then
            raise exception 'rollback_if: expected "FIGURE > [NUMBER *] baseline [+ NUMBER]" or "FIGURE > NUMBER", found "%"', left(_text, 100)
                using errcode = 'WA010', hint = 'Separate clauses by or, as in: failures > 2 * baseline or cost > 1.5 * baseline';
        elsif _part[1] <> all (_figures) then
            raise exception 'rollback_if: unknown figure "%"', left(_part[1], 100)
                using errcode = 'WA010', detail = 'The figures are failures, corrections, cost, latency and calls.',
                      hint = agent_internal.suggest(_part[1], _figures);
        end if;
        _clauses := _clauses || jsonb_build_array(jsonb_build_object(
            'text', _text, 'figure', _part[1],
            'times', case when _part[3] is not null then coalesce(_part[2], '1')::numeric end,
            'plus', coalesce((coalesce(_part[4], '+') || _part[5])::numeric, _part[6]::numeric, 0)));
    end loop;
    return _clauses;
end;
$$;
comment on function agent_internal.parse_rule(text) is 'Parse the rule by which a canary is rolled back';

-- The first clause of a rule that is true, with its figures; NULL: none.
--
-- A clause with baseline needs *_least* ended runs of both versions, another one those of the canary.
create or replace function agent_internal.broken_clause(_rule text, _least integer, _canary jsonb, _base jsonb)
    returns text
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select format('%s: %s in %s runs of version %s', c ->> 'text', _canary ->> (c ->> 'figure'), _canary ->> 'ended', _canary ->> 'version')
           || case when c ->> 'times' is not null
                   then format(', %s in %s of version %s', _base ->> (c ->> 'figure'), _base ->> 'ended', _base ->> 'version') else '' end
      from jsonb_array_elements(agent_internal.parse_rule(_rule)) with ordinality as r (c, n)
     where (_canary ->> 'ended')::bigint >= _least
       and (c ->> 'times' is null or (_base ->> 'ended')::bigint >= _least)
       and (_canary ->> (c ->> 'figure'))::numeric
           > coalesce((c ->> 'times')::numeric * (_base ->> (c ->> 'figure'))::numeric, case when c ->> 'times' is null then 0 end) + (c ->> 'plus')::numeric
     order by n limit 1
$$;
comment on function agent_internal.broken_clause(text, integer, jsonb, jsonb) is 'The first clause of a rule that is true, with its figures';

-- What the runs of a version came to, of those with an ID in this range.
--
-- failures, corrections: share of the ended runs; cost, calls: mean of a run; latency: median of the seconds from start to end.
create or replace function agent_internal.version_figures(_attachment_id bigint, _version integer, _after bigint, _until bigint)
    returns table (runs bigint, ended bigint, failures numeric, corrections numeric, cost numeric, latency numeric, calls numeric)
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select count(*), count(*) filter (where e.ended),
           round(avg((r.state in ('failed', 'dead'))::integer) filter (where e.ended), 4),
           round(avg(exists (select from agent.correction k where k.run_id = r.id and k.kind <> 'bulk')::integer) filter (where e.ended), 4),
           round(avg(r.cost) filter (where e.ended), 6),
           round((percentile_cont(0.5) within group (order by extract(epoch from r.finished_at - r.started_at)) filter (where e.ended))::numeric, 3),
           round(avg((select count(*) from agent.step s where s.run_id = r.id and s.kind = 'reply')) filter (where e.ended), 2)
      from agent.run r
           cross join lateral (select r.state in ('succeeded', 'failed', 'dead')) as e (ended)
     where r.id > _after and r.id <= coalesce(_until, 9223372036854775807)
       and r.attachment_id = _attachment_id and r.attachment_version = _version and r.kind = 'agent' and r.reason = 'change'
$$;
comment on function agent_internal.version_figures(bigint, integer, bigint, bigint) is 'What the runs of a version of an attachment came to';

-- Before an attachment is stored: check it, and make the definition of its canary, with the rights of the role that changes it.
--
-- A change of the attachment ends its canary; one that makes it what the canary is, is its promotion and keeps its number.
create or replace function agent_internal.checked_versions(_op text, old agent.attachment, new agent.attachment, _schemas name[])
    returns agent.attachment
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _is_changed boolean;
begin
    new := agent_internal.checked_attachment(_op, old, new, _schemas);
    _is_changed := _op = 'INSERT' or new.version <> old.version;
    if _is_changed and (case when _op = 'INSERT' then new.canary is not null else new.canary is distinct from old.canary and new.canary is not null end) then
        raise exception 'cannot change attachment "%" and begin a canary of it in one statement', new.name
            using errcode = 'WA013', hint = 'Change it first, then call agent.canary().';
    elsif _op = 'UPDATE' and _is_changed and old.canary is not null then
        if new.definition - 'version' = old.canary_definition - 'version' then
            new.version := (old.canary_definition ->> 'version')::integer;
            new.definition := old.canary_definition;
        else
            raise warning 'the canary of attachment "%" has ended: version % of the attachment is not the one that it was compared with',
                new.name, new.version;
        end if;
        new.canary := null;
    end if;
    if new.canary is null then
        new.canary_share := null;
        new.canary_definition := null;
        new.canary_shadow := false;
        return new;
    end if;
    perform agent_internal.check_keys(format('attachment "%s": canary', new.name), new.canary, '{changes,rollback_if,min_runs}');
    if new.canary_share is null or not (new.canary_share > 0 and (new.canary_share < 1 or new.canary_shadow and new.canary_share = 1)) then
        raise exception 'share: must be more than 0 and %', case when new.canary_shadow then '1 at most' else 'less than 1' end
            using errcode = 'WA010', hint = case when new.canary_share = 1 then 'agent.promote_canary() gives the version to all.' else 'As in share => 0.1.' end;
    elsif jsonb_typeof(new.canary -> 'min_runs') is distinct from 'number' or new.canary ->> 'min_runs' !~ '^[1-9][0-9]{0,5}$' then
        raise exception 'min_runs: must be an integer from 1 to 999999' using errcode = 'WA010';
    end if;
    perform agent_internal.parse_rule(new.canary ->> 'rollback_if');
    if old.canary is null then
        new.canary_definition := agent_internal.canary_definition(old, new, _schemas);
    elsif old.canary -> 'changes' = new.canary -> 'changes' and (old.canary_shadow or not new.canary_shadow) then
        new.canary_definition := old.canary_definition;
    else
        raise exception 'attachment "%" has a %, version %', new.name, case when old.canary_shadow then 'shadow' else 'canary' end,
            old.canary_definition ->> 'version' using errcode = 'WA013', hint = 'First promote it, or roll it back.';
    end if;
    return new;
end;
$$;
comment on function agent_internal.checked_versions(text, agent.attachment, agent.attachment, name[]) is 'Check an attachment, and make the definition of its canary';

-- The definition of a canary: agent and attachment are changed as the caller could change them, and the changes rolled back.
create or replace function agent_internal.canary_definition(old agent.attachment, new agent.attachment, _schemas name[])
    returns jsonb
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _spec constant jsonb := agent_internal.canary_changes(new);
    _made jsonb;
begin
    if _spec ?| array(select k.key from agent_internal.attach_keys() k where k.of = 'agent') then
        perform agent_internal.check_sole_use(new);
    end if;
    begin
        new := agent_internal.apply_canary(old, new, _spec, _schemas);
        _made := new.definition;
        raise exception 'rolled back';
    exception when others then
        if _made is null then
            raise;
        end if;
    end;
    if _made - '{version,agent_version}'::text[] = old.definition - '{version,agent_version}'::text[] then
        raise exception 'the canary of attachment "%" would change nothing', old.name
            using errcode = 'WA010', hint = 'Name at least one setting that differs, as in model=NAME.';
    end if;
    return _made;
end;
$$;
comment on function agent_internal.canary_definition(agent.attachment, agent.attachment, name[]) is 'The definition of a canary, made as attaching makes one';

-- The changes of a canary, checked.
create or replace function agent_internal.canary_changes(_attachment agent.attachment)
    returns jsonb
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _changes constant jsonb := _attachment.canary -> 'changes';
    _key     text;
begin
    if _attachment.turns is not null then
        raise exception 'attachment "%" cannot have a canary: its agent takes turns in threads', _attachment.name using errcode = 'WA013';
    elsif jsonb_typeof(_changes) is distinct from 'object' or _changes = '{}' then
        raise exception 'a canary requires what it changes' using errcode = 'WA010', hint = 'Name it as in agent.attach: model=NAME, system_prompt="..."';
    end if;
    perform agent_internal.spec_values(_changes);
    select k into _key from jsonb_object_keys(_changes) k where k not in (select agent_internal.canary_keys()) order by k limit 1;
    if found then
        raise exception '%: a canary cannot change it', _key
            using errcode = 'WA010', detail = 'It decides which changes match, or how their runs queue: both versions share that.',
                  hint = 'Attach a second time, or change the attachment.';
    elsif _changes ? 'agent' and _changes ?| array(select k.key from agent_internal.attach_keys() k where k.of = 'agent') then
        raise exception 'agent: cannot be combined with settings of an agent' using errcode = 'WA010';
    end if;
    return _changes;
end;
$$;
comment on function agent_internal.canary_changes(agent.attachment) is 'The changes of a canary, checked';

-- A canary of an agent's settings is promoted by a change of the agent, which must be this attachment's alone.
create or replace function agent_internal.check_sole_use(_attachment agent.attachment)
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _other text;
begin
    select a.name into _other from agent.attachment a
     where a.tenant = _attachment.tenant and a.agent = _attachment.agent and a.id <> _attachment.id order by a.name limit 1;
    if found then
        raise exception 'agent "%" is used by attachment "%", too', _attachment.agent, _other
            using errcode = 'WA013', detail = 'If the canary were promoted, that would change as well.',
                  hint = 'Make a second agent, and begin the canary with agent=NAME.';
    end if;
end;
$$;
comment on function agent_internal.check_sole_use(agent.attachment) is 'Check that no other attachment uses the agent';

-- Change the agent of an attachment and return the attachment, as the canary has them.
create or replace function agent_internal.apply_canary(old agent.attachment, new agent.attachment, _spec jsonb, _schemas name[])
    returns agent.attachment
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.change_canary_agent(new.agent, _spec);
    new := jsonb_populate_record(new, agent_internal.canary_columns(_spec));
    new.version := old.version + 1;
    return agent_internal.checked_attachment('UPDATE', old, new, _schemas);
end;
$$;
comment on function agent_internal.apply_canary(agent.attachment, agent.attachment, jsonb, name[]) is 'Change agent and attachment as a canary has them';

-- The columns of the attachment that the changes of a canary set.
create or replace function agent_internal.canary_columns(_spec jsonb)
    returns jsonb
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select coalesce(jsonb_object_agg(k.column, case k.key when 'agent' then v.given -> 'agent' else v.row -> k.column end), '{}')
      from agent_internal.attach_keys() k
           cross join lateral (select agent_internal.spec_values(_spec)) as g (given)
           cross join lateral (select g.given, agent_internal.spec_row('attachment', g.given)) as v (given, row)
     where k.of = 'attachment' and _spec ? k.key
$$;
comment on function agent_internal.canary_columns(jsonb) is 'The columns of the attachment that the changes of a canary set';

-- Change the agent, without a version of its attachments: what follows makes one.
create or replace function agent_internal.change_canary_agent(_agent text, _spec jsonb)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _own constant jsonb := (select jsonb_object_agg(k.key, _spec -> k.key) from agent_internal.attach_keys() k where k.of = 'agent' and _spec ? k.key);
    _was constant text := coalesce(current_setting('walagent.applying', true), '');
begin
    if _own is not null then
        perform set_config('walagent.applying', 'on', true);
        perform agent_internal.change_agent(_agent, _own);
        perform set_config('walagent.applying', _was, true);
    end if;
end;
$$;
comment on function agent_internal.change_canary_agent(text, jsonb) is 'Change the agent of an attachment as a canary has it';

-- Record what became of a canary, with the rights of the owner: called by the triggers of agent.attachment alone.
--
-- Args: new: NULL if the attachment was removed.
create or replace function agent_internal.follow_canary(old agent.attachment, new agent.attachment)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _now    constant timestamptz := agent_internal.now();
    _who    constant name := coalesce(agent.current_principal(), session_user);
    _last   constant bigint := coalesce((select max(r.id) from agent.run r), 0);
    _number constant integer := coalesce(new.canary_definition, old.canary_definition) ->> 'version';
    _lost   text;
    _state  text;
begin
    if old.canary is null and new.canary is not null then
        _lost := agent_internal.drift_of(new.canary_definition);
        if _lost is not null then
            raise exception '%', _lost using errcode = 'WA013';
        end if;
        insert into agent.attachment_version (attachment_id, version, definition) values (new.id, _number, new.canary_definition);
        insert into agent.canary (attachment_id, attachment, version, base_version, changes, share, rollback_if, min_runs, begun_by, begun_at,
                                  after_run, check_at, shadow, evaluation_id, tenant)
        values (new.id, new.name, _number, new.version, new.canary -> 'changes', new.canary_share, new.canary ->> 'rollback_if',
                (new.canary ->> 'min_runs')::integer, _who, _now, _last, _now, new.canary_shadow, agent_internal.begin_shadow(new), new.tenant);
        perform agent_internal.audit('canary.begun', new.name, jsonb_build_object(
            'version', _number, 'base_version', new.version, 'share', new.canary_share, 'rollback_if', new.canary ->> 'rollback_if',
            'shadow', new.canary_shadow), new.tenant);
    elsif old.canary is not null and new.canary is not null then
        if old.canary_shadow and not new.canary_shadow then
            -- What the runs of the canary come to is compared from here on.
            perform agent_internal.end_shadow(old);
            update agent.canary c set shadow = false, after_run = _last where c.attachment_id = new.id and c.version = _number;
        end if;
        if (new.canary, new.canary_share, new.canary_shadow) is distinct from (old.canary, old.canary_share, old.canary_shadow) then
            update agent.canary c
               set share = new.canary_share, rollback_if = new.canary ->> 'rollback_if', min_runs = (new.canary ->> 'min_runs')::integer, check_at = _now
             where c.attachment_id = new.id and c.version = _number;
            perform agent_internal.audit('canary.changed', new.name, jsonb_build_object(
                'version', _number, 'share', new.canary_share, 'rollback_if', new.canary ->> 'rollback_if', 'shadow', new.canary_shadow), new.tenant);
        end if;
    elsif old.canary is not null then
        if old.canary_shadow then
            perform agent_internal.end_shadow(old);
        end if;
        _state := case when new.id is null or new.version not in (_number, old.version) then 'replaced'
                       when new.version = _number then 'promoted' else 'rolled_back' end;
        update agent.canary c
           set state = _state, ended_by = _who, ended_at = _now, last_run = _last,
               reason = case when _state = 'rolled_back' then nullif(current_setting('walagent.canary_reason', true), '') end
         where c.attachment_id = old.id and c.version = _number;
        perform agent_internal.audit('canary.' || _state, old.name, jsonb_build_object(
            'version', _number, 'base_version', old.version,
            'reason', case when _state = 'rolled_back' then nullif(current_setting('walagent.canary_reason', true), '') end), old.tenant);
    end if;
end;
$$;
comment on function agent_internal.follow_canary(agent.attachment, agent.attachment) is 'Record what became of a canary';

-- The attachment of the caller's tenant, locked.  Raises WA013 if no attachment has the name or, for *_needs_canary*, it has no canary.
create or replace function agent_internal.attachment_of_canary(_name text, _needs_canary boolean)
    returns agent.attachment
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _found agent.attachment;
begin
    select * into _found from agent.attachment a where a.tenant = agent.current_tenant() and a.name = _name for update;
    if not found then
        raise exception 'attachment "%" does not exist', _name
            using errcode = 'WA013',
                  hint = agent_internal.suggest(_name, (select array_agg(a.name) from agent.attachment a where a.tenant = agent.current_tenant()));
    elsif _needs_canary and _found.canary is null then
        raise exception 'attachment "%" has no canary', _name using errcode = 'WA013', hint = 'agent.canary() begins one.';
    end if;
    return _found;
end;
$$;
comment on function agent_internal.attachment_of_canary(text, boolean) is 'The attachment of a canary, locked';

-- A canary, or a shadow, is begun with changes, and changed without them.
create or replace function agent_internal.check_begun(_on agent.attachment, _changes text)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if _on.canary is not null and _changes is not null then
        raise exception 'attachment "%" has a %, version %', _on.name, case when _on.canary_shadow then 'shadow' else 'canary' end,
            _on.canary_definition ->> 'version'
            using errcode = 'WA013', hint = 'First promote it, or roll it back; to change its share or rule, leave out changes.';
    end if;
end;
$$;
comment on function agent_internal.check_begun(agent.attachment, text) is 'Check that changes begin a canary, and that without them one is changed';

-- Begin a canary of an attachment, or change its share or its rule.
--
-- Args:
--   changes: what differs from the attachment, as a spec of agent.attach(): 'model=NAME, system_prompt="..."'.  NULL: of the
--     canary that there is, change what is given.
--   share: of the ordering keys, between 0 and 1; of a new canary 0.1 if it is NULL.  A key that the canary has stays with it while
--     the share grows.  A shadow becomes a canary, with the same version.
--   rollback_if: the rule by which walagent rolls it back; empty: none.
--   min_runs: ended runs that the rule needs; of a new canary 30 if it is NULL.
--
-- Returns the version of the canary.  Raises WA010 for the arguments and WA013 for the attachment, and what agent.attach() raises.
create or replace function agent.canary(attachment text, changes text default null, share double precision default null,
                                        rollback_if text default null, min_runs integer default null)
    returns integer
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _on   agent.attachment;
    _made integer;
    _state   text;
    _message text;
    _detail  text;
    _hint    text;
begin
    _on := agent_internal.attachment_of_canary(canary.attachment, canary.changes is null);
    perform agent_internal.check_begun(_on, canary.changes);
    update agent.attachment a
       set canary_shadow = false,
           canary_share = coalesce(canary.share, case when not _on.canary_shadow then _on.canary_share end, 0.1),
           canary = jsonb_build_object(
               'changes', case when canary.changes is null then _on.canary -> 'changes' else agent_internal.parse_spec(canary.changes) end,
               'rollback_if', nullif(coalesce(canary.rollback_if, _on.canary ->> 'rollback_if'), ''),
               'min_runs', coalesce(canary.min_runs, (_on.canary ->> 'min_runs')::integer, 30))
     where a.tenant = _on.tenant and a.name = _on.name
    returning (a.canary_definition ->> 'version')::integer into _made;
    return _made;
exception when others then
    get stacked diagnostics _state = returned_sqlstate, _message = message_text,
                            _detail = pg_exception_detail, _hint = pg_exception_hint;
    _state := agent_internal.raise_again(_state, _message, _detail, _hint);
end;
$$;
comment on function agent.canary(text, text, double precision, text, integer) is 'Begin a canary: a version of an attachment that a share of the ordering keys gets';

-- Make the canary of an attachment its version.
--
-- Returns the version.  Raises WA013 if there is no canary, or if what it was made of has changed since.
create or replace function agent.promote_canary(attachment text)
    returns integer
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _on      agent.attachment;
    _spec    jsonb;
    _columns jsonb;
    _version integer;
    _state   text;
    _message text;
    _detail  text;
    _hint    text;
begin
    _on := agent_internal.attachment_of_canary(promote_canary.attachment, true);
    _spec := _on.canary -> 'changes';
    if _spec ?| array(select k.key from agent_internal.attach_keys() k where k.of = 'agent') then
        perform agent_internal.check_sole_use(_on);
    end if;
    perform agent_internal.change_canary_agent(_on.agent, _spec);
    _columns := agent_internal.canary_columns(_spec) || jsonb_build_object('version', _on.version + 1);
    perform agent_internal.write_row('attachment', _on.name, _columns, '{}');
    select a.version into _version from agent.attachment a where a.tenant = _on.tenant and a.name = _on.name;
    if _version <> (_on.canary_definition ->> 'version')::integer then
        raise exception 'cannot promote the canary of attachment "%": a tool, a function or the table has changed since it began', _on.name
            using errcode = 'WA013', hint = 'Roll it back, and begin it again.';
    end if;
    return _version;
exception when others then
    get stacked diagnostics _state = returned_sqlstate, _message = message_text,
                            _detail = pg_exception_detail, _hint = pg_exception_hint;
    _state := agent_internal.raise_again(_state, _message, _detail, _hint);
end;
$$;
comment on function agent.promote_canary(text) is 'Make the canary of an attachment its version';

-- End the canary of an attachment: all changes get the version that it had before.  Runs of the canary keep their version.
create or replace function agent.roll_back_canary(attachment text, reason text default null)
    returns integer
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _on  agent.attachment;
    _was constant text := coalesce(current_setting('walagent.canary_reason', true), '');
    _state   text;
    _message text;
    _detail  text;
    _hint    text;
begin
    _on := agent_internal.attachment_of_canary(roll_back_canary.attachment, true);
    if length(reason) > 1000 then
        raise exception 'reason has % characters, expected 1000 at most', length(reason) using errcode = '22023';
    end if;
    perform set_config('walagent.canary_reason', coalesce(roll_back_canary.reason, ''), true);
    update agent.attachment a set canary = null where a.tenant = _on.tenant and a.name = _on.name;
    perform set_config('walagent.canary_reason', _was, true);
    return _on.version;
exception when others then
    get stacked diagnostics _state = returned_sqlstate, _message = message_text,
                            _detail = pg_exception_detail, _hint = pg_exception_hint;
    _state := agent_internal.raise_again(_state, _message, _detail, _hint);
end;
$$;
comment on function agent.roll_back_canary(text, text) is 'End the canary of an attachment; all changes get the version before it';

-- Begin a shadow: its version runs on a share of the changes, too, after the version that there is, and what it does is rolled back.
--
-- Args:
--   changes: as of agent.canary().  NULL: change the share of the shadow that there is.
--   share: of the ordering keys, more than 0 and 1 at most; of a new shadow 1 if it is NULL.
--
-- Returns the version of the shadow.  agent.canary() without changes makes a canary of it, agent.promote_canary() the version of the
-- attachment; agent.roll_back_canary() ends it.  Raises as agent.canary() does.
create or replace function agent.shadow(attachment text, changes text default null, share double precision default null)
    returns integer
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _on   agent.attachment;
    _made integer;
    _state   text;
    _message text;
    _detail  text;
    _hint    text;
begin
    _on := agent_internal.attachment_of_canary(shadow.attachment, shadow.changes is null);
    perform agent_internal.check_begun(_on, shadow.changes);
    update agent.attachment a
       set canary_shadow = true,
           canary_share = coalesce(shadow.share, _on.canary_share, 1),
           canary = case when _on.canary is null then jsonb_build_object('changes', agent_internal.parse_spec(shadow.changes), 'rollback_if', null, 'min_runs', 30)
                         else _on.canary end
     where a.tenant = _on.tenant and a.name = _on.name
    returning (a.canary_definition ->> 'version')::integer into _made;
    return _made;
exception when others then
    get stacked diagnostics _state = returned_sqlstate, _message = message_text,
                            _detail = pg_exception_detail, _hint = pg_exception_hint;
    _state := agent_internal.raise_again(_state, _message, _detail, _hint);
end;
$$;
comment on function agent.shadow(text, text, double precision) is 'Begin a shadow: a version of an attachment whose runs on a share of the changes are rolled back';

-- The canaries whose rules are due, for walagent's reader.
create or replace function agent_internal.due_canaries()
    returns setof bigint
    language sql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$ select c.attachment_id from agent.canary c where c.state = 'running' and c.check_at <= agent_internal.now() order by c.check_at, 1 $$;
comment on function agent_internal.due_canaries() is 'The attachments with a canary whose rule is due';

-- Roll the canary of an attachment back if its rule says so, or if it cannot run any more.  The next check is a minute later, or
-- twenty times what this one took.
--
-- Returns name, version and reason if it was rolled back.  Raises 55P03 if another transaction has locked the attachment.
create or replace function agent_internal.check_canary(_attachment_id bigint)
    returns table (attachment text, version integer, reason text)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _began  constant timestamptz := clock_timestamp();
    _found  agent.canary;
    _sides  jsonb[];
    _reason text;
begin
    select * into _found from agent.canary c where c.attachment_id = _attachment_id and c.state = 'running';
    if not found then
        return;
    end if;
    -- What neither version can do, is no fault of the canary: it waits, as the attachment does.
    select 'it cannot run: ' || agent_internal.drift_of(a.canary_definition) into _reason
      from agent.attachment a where a.id = _attachment_id and agent_internal.drift_of(a.definition) is null;
    if _reason is null and _found.rollback_if is not null then
        _sides := array(
            select to_jsonb(f) || jsonb_build_object('version', v.number)
              from unnest(array[_found.version, _found.base_version]) with ordinality as v (number, n)
                   cross join lateral agent_internal.version_figures(_attachment_id, v.number, _found.after_run, null) f
             order by v.n);
        _reason := agent_internal.broken_clause(_found.rollback_if, _found.min_runs, _sides[1], _sides[2]);
    end if;
    if _reason is null then
        update agent.canary c
           set check_at = agent_internal.now() + greatest(interval '1 minute', 20 * (clock_timestamp() - _began))
         where c.attachment_id = _attachment_id and c.version = _found.version;
        return;
    end if;
    -- Locked only now: figures can take long.  Somebody can have ended it meanwhile.
    select a.name into attachment from agent.attachment a
     where a.id = _attachment_id and a.canary_definition ->> 'version' = _found.version::text for update nowait;
    if not found then
        return;
    end if;
    perform set_config('walagent.canary_reason', _reason, true);
    update agent.attachment a set canary = null where a.id = _attachment_id;
    perform set_config('walagent.canary_reason', '', true);
    update agent.canary c set ended_by = null where c.attachment_id = _attachment_id and c.version = _found.version;
    version := _found.version;
    reason := _reason;
    return next;
end;
$$;
comment on function agent_internal.check_canary(bigint) is 'Roll a canary back if its rule says so';
