-- The edit distance of two words.
create or replace function agent_internal.edit_distance(_a text, _b text)
    returns integer
    language plpgsql
    immutable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _row  integer[] := array(select generate_series(0, length(_b)));
    _next integer[];
begin
    for _i in 1 .. length(_a) loop
        _next := array[_i];
        for _j in 1 .. length(_b) loop
            _next := _next || least(
                _row[_j + 1] + 1,
                _next[_j] + 1,
                _row[_j] + (substr(_a, _i, 1) <> substr(_b, _j, 1))::integer
            );
        end loop;
        _row := _next;
    end loop;
    return _row[length(_b) + 1];
end;
$$;

-- The values of `CHECK (x IN ('a', 'b'))` as PostgreSQL prints it, also with `OR x IS NULL`; NULL for any other
-- check, which can allow more than the list, or its complement.
create or replace function agent_internal.check_list(_definition text)
    returns text[]
    language sql
    immutable
    set search_path = pg_catalog, pg_temp
    set standard_conforming_strings = on
as $$
    select array_agg(replace(m[1], '''''', '''') order by n)
      from regexp_matches(
               substring(_definition from '^CHECK \(+(?:[[:alnum:]_$]+|"(?:[^"]|"")+")\)?(?:::[a-z ]+)? = ANY \(+ARRAY\['
                                          '((?:''(?:[^'']|'''')*''::[^],'']+(?:, )?)+)'
                                          '\](?:\)::[a-z ]+\[\])?\)+(?: OR \([^'']+ IS NULL\)+)?$'),
               '''((?:[^'']|'''')*)''::', 'g') with ordinality as found (m, n)
$$;

-- A hint: 'Did you mean "..."? Known: ...'.  Of many names, only the closest ones.
create or replace function agent_internal.suggest(_word text, _known text[])
    returns text
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    with closest as (
        select k, agent_internal.edit_distance(lower(left(_word, 40)), lower(left(k, 40))) as distance
          from unnest(_known) k
         order by 2, 1
         limit 5
    )
    select coalesce((select format('Did you mean "%s"? ', k) from closest
                      where distance <= greatest(2, length(_word) / 3) order by distance, k limit 1), '')
        || case when cardinality(_known) > 30
                then coalesce((select format('The closest of %s: %s.', cardinality(_known), string_agg(k, ', ' order by distance, k))
                                 from closest where distance <= greatest(2, length(_word) / 2) having count(*) > 0),
                              format('None of the %s names is near.', cardinality(_known)))
                else 'Known: ' || coalesce((select string_agg(k, ', ' order by k) from unnest(_known) k), 'none') || '.' end
$$;

-- Whether a text has what looks like a key of a provider, an access key, a private key or a signed token.
create or replace function agent_internal.has_key(_text text)
    returns boolean
    language sql
    immutable
    parallel safe
begin atomic
    select _text ~ ('(^|[^A-Za-z0-9])(sk-[A-Za-z0-9_-]{20,}|(AKIA|ASIA)[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{35}|gh[pousr]_[A-Za-z0-9]{36}'
                 || '|github_pat_[A-Za-z0-9_]{22,}|xox[abposr]-[A-Za-z0-9-]{10,}|glpat-[A-Za-z0-9_-]{20}|wla_[A-Za-z0-9_-]{20,})')
        or _text ~ '-----BEGIN [A-Z ]*PRIVATE KEY-----'
        or _text ~ '(^|[^A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}';
end;

-- Whether a role can become another one; NULL: there is no such role.  Since PostgreSQL 16 a membership can be without that.
create or replace function agent_internal.may_become(_member oid, _role name)
    returns boolean
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
as $$
begin
    return (
        select pg_has_role(_member, r.oid, case when current_setting('server_version_num')::integer < 160000 then 'member' else 'set' end)
          from pg_roles r where r.rolname = _role);
end;
$$;
comment on function agent_internal.may_become(oid, name) is 'Whether a role can become another one';

-- Whether PostgreSQL maintains a table here, as its owner and not as who maintains it: ANALYZE, VACUUM, REINDEX, CREATE INDEX,
-- REFRESH MATERIALIZED VIEW, also of autovacuum, and the apply worker of a subscription.  It closes no cursor then, not even one
-- that does not exist, whatever function asks.
create or replace function agent_internal.is_maintaining()
    returns boolean
    language plpgsql
    volatile
    set search_path = pg_catalog, pg_temp
    set exit_on_error = off
as $$
begin
    execute 'close "of walagent, which does not exist"';
    return false;
exception
    when invalid_cursor_name then
        return false;
    when insufficient_privilege then
        return true;
end;
$$;
comment on function agent_internal.is_maintaining() is 'Whether PostgreSQL maintains a table, as its owner';

-- How many triggers are walagent's own, without one of others below them: those of statements on its tables.
--
-- What says so is signed for this transaction, and only triggers of walagent have it signed, which nobody else can create.
-- It stands for all triggers of a statement on most of its tables.  A deferred one says it for itself, and so do those of tables
-- that each run writes many times.
create or replace function agent_internal.own_triggers()
    returns integer
    language plpgsql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _said constant text := current_setting('walagent.own_triggers', true);
begin
    if coalesce(_said, '') = '' or left(_said, 64) <> agent_internal.mac(format('triggers %s %s', agent_internal.transaction_name(), substr(_said, 65))) then
        return 0;
    end if;
    return substr(_said, 65)::integer;
end;
$$;

create or replace function agent_internal.say_own_triggers(_count integer)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
as $$
begin
    perform set_config('walagent.own_triggers', case when _count > 0
        then agent_internal.mac(format('triggers %s %s', agent_internal.transaction_name(), _count)) || _count else '' end, true);
end;
$$;

-- In a trigger of walagent: what it executes acts as who executes the statement; not below a trigger of others.
--
-- Returns whether it was said: who has said it takes it back with leave().
create or replace function agent_internal.enter()
    returns boolean
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if pg_trigger_depth() <> agent_internal.own_triggers() + 1 then
        return false;
    end if;
    perform agent_internal.say_own_triggers(pg_trigger_depth());
    return true;
end;
$$;

create or replace function agent_internal.leave(_entered boolean)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if _entered then
        perform agent_internal.say_own_triggers(pg_trigger_depth() - 1);
    end if;
end;
$$;

-- Before a statement on a table of walagent.
create or replace function agent_internal.enter_trigger()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.enter();
    return null;
end;
$$;

create or replace function agent_internal.leave_trigger()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.leave(pg_trigger_depth() = 1 or pg_trigger_depth() = agent_internal.own_triggers());
    return null;
end;
$$;

-- As which role a trampoline executes what it was given; NULL: none does.
create or replace function agent_internal.acting_role()
    returns name
    language plpgsql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _said constant text := current_setting('walagent.acting_role', true);
begin
    if coalesce(_said, '') = '' or left(_said, 64) <> agent_internal.mac(format('acts %s %s', agent_internal.transaction_name(), substr(_said, 65))) then
        return null;
    end if;
    return substr(_said, 65);
end;
$$;

-- Say it until the end of the transaction; NULL: none does.  Returns what was said before.
create or replace function agent_internal.say_acting_role(_role name)
    returns name
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _before constant name := agent_internal.acting_role();
begin
    perform set_config('walagent.acting_role',
                       coalesce(agent_internal.mac(format('acts %s %s', agent_internal.transaction_name(), _role)) || _role, ''), true);
    return _before;
end;
$$;

-- Whether code here has the rights of the role that executes the statement, and not of the owner of a table or function: a trigger
-- that has them is executed as PostgreSQL executes all that a statement needs.  In a function of walagent nothing shows it.
create or replace function agent_internal.has_own_rights()
    returns boolean
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    if agent_internal.has_owner_rights() then
        return false;
    end if;
    return current_user = coalesce(nullif(current_setting('role'), 'none'), session_user) or current_user = agent_internal.acting_role();
end;
$$;

-- Whether PostgreSQL executes code of others here, in a session of somebody who has not called it.
--
-- It does so as the owner of a table: while it maintains the table, or checks or cascades a foreign key, whose statement is among
-- the callers then; what stands around it is in the language of the server.  Or in a trigger: since PostgreSQL 18, one below such a
-- cascade is executed as the owner of its table after that statement, and nothing says so, but that it is a trigger whose
-- rights are not those of the role that executes the statement.
-- A parallel worker does not know who has called.
--
-- Args: _called: also code that a trampoline executes, which is among the callers: nothing removes it from them.
-- Raises 25000 in a parallel worker, where nothing of walagent is executed.
create or replace function agent_internal.in_foreign_code(_called boolean default false)
    returns boolean
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _callers text;
begin
    get diagnostics _callers = pg_context;
    perform set_config('walagent.parallel', 'no', true);
    return _called and strpos(_callers, 'agent_call.as_') > 0 and _callers ~ 'agent_call[.]as_[0-9]+[(]'
        or strpos(_callers, 'OPERATOR(') > 0 and _callers ~ '(SELECT 1 FROM|DELETE FROM|UPDATE) (ONLY )?("|[(]SELECT ).*OPERATOR[(]'
        or pg_trigger_depth() > 0 and pg_trigger_depth() > agent_internal.own_triggers() and not agent_internal.has_own_rights()
        or agent_internal.is_maintaining();
end;
$$;
comment on function agent_internal.in_foreign_code(boolean) is 'Whether PostgreSQL executes code of others, which nobody has called';

-- Whether code of others is being executed here, so that the login of the session is not who acts.
create or replace function agent_internal.in_code()
    returns boolean
    language sql
    stable
    return agent_internal.in_foreign_code(_called => true);
comment on function agent_internal.in_code() is 'Whether code of others is being executed';

-- Raise an error again, as the outermost function that people call does: psql would print the stack of PL/pgSQL functions.
--
-- Returns text, and never: an assignment adds one line of context, PERFORM two.
create or replace function agent_internal.raise_again(_state text, _message text, _detail text, _hint text)
    returns text
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if _detail <> '' and _hint <> '' then
        raise exception using errcode = _state, message = _message, detail = _detail, hint = _hint;
    elsif _detail <> '' then
        raise exception using errcode = _state, message = _message, detail = _detail;
    elsif _hint <> '' then
        raise exception using errcode = _state, message = _message, hint = _hint;
    end if;
    raise exception using errcode = _state, message = _message;
end;
$$;
