-- What a person sees: the call that is to be approved, and what is wrong with a condition or a name.

-- The whole call, and the row that it is about.

create or replace view agent.pending_approval with (security_invoker = on) as
    select p.id, p.run_id, a.name as attachment, p.tool, p.arguments, r.key, p.asked_at, p.expires_at,
           (r.change ->> 'schema') || '.' || (r.change ->> 'table') as relation,
           coalesce((select jsonb_object_agg(b.argument, c.content -> b.source)
                       from jsonb_array_elements(v.definition -> 'tools') t
                            cross join jsonb_each_text(t -> 'bind') b (argument, source)
                      where t ->> 'name' = p.tool), '{}') as bound,
           c.content as content
      from agent.approval p
           join agent.run r on r.id = p.run_id
           left join agent.attachment a on a.id = r.attachment_id
           left join agent.attachment_version v
             on v.attachment_id = r.attachment_id and v.version = r.attachment_version
           cross join lateral (select coalesce(nullif(r.change -> 'new', 'null'), r.change -> 'old')) c (content)
     where p.state = 'pending';
comment on column agent.pending_approval.arguments is 'Arguments of the call that the model chose';
comment on column agent.pending_approval.relation is 'Table of the row, as schema.table';
comment on column agent.pending_approval.bound is 'Arguments of the call that come from the row';
comment on column agent.pending_approval.content is 'The row as the agent saw it: after the change, or before a delete';

-- A hint: 'Did you mean "..."? Known: ...'.  Of many names, only the closest ones.
create or replace function agent_internal.suggest(_word text, _known text[])
    returns text
    language sql
    stable
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
                then format('The closest of %s: %s.', cardinality(_known), (select string_agg(k, ', ' order by distance, k) from closest))
                else 'Known: ' || coalesce((select string_agg(k, ', ' order by k) from unnest(_known) k), 'none') || '.' end
$$;

-- Compile a condition: create a view of it, inspect what PostgreSQL has parsed, and drop the view.
--
-- Returns the columns that it reads, those of the old row, whether it reads a whole row, and its text with all
-- names qualified, which is what is evaluated later.  Raises the error of PostgreSQL for what does not compile, and
-- WA012 for what could give different results for one change: subqueries, volatile functions, system columns,
-- columns that are not in the WAL, and functions and domains that belong neither to PostgreSQL nor to an extension
-- (they could set another role during the evaluation).
create or replace function agent_internal.compile_condition(
    _relation regclass, _condition text, _path text,
    out columns text[], out old_columns text[], out whole_row boolean, out compiled text
)
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set standard_conforming_strings = on
as $$
declare
    _statement constant text := format('create temporary view walagent_condition as select from %s as new, %s as old where (%s)',
                                       _relation, _relation, _condition);
    -- Before version 16 every view has a NEW and an OLD of its own, before those of the condition.
    _old constant integer := case when current_setting('server_version_num')::integer < 160000 then 4 else 2 end;
    _rule     record;
    _function record;
    _column   text;
begin
    if not agent_internal.is_one_expression(_condition) then
        raise exception 'condition is not a single expression: %', left(_condition, 200)
            using errcode = 'WA012', hint = 'Remove comments, dollar quotes, E strings and semicolons, and balance the parentheses.';
    end if;
    begin
        perform set_config('search_path', _path, true);
        execute _statement;
        perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    exception when ambiguous_column then
        _column := substring(sqlerrm from '"([^"]+)"');
        raise exception 'condition: column "%" is ambiguous', _column
            using errcode = '42702', hint = format('Write new.%1$I, or old.%1$I for the value before the change.', _column);
    when insufficient_privilege then
        raise exception 'could not check the condition: %', sqlerrm
            using errcode = 'WA012', hint = format('grant temporary on database %I to %I', current_database(), current_user);
    end;
    select r.oid, r.ev_action::text as tree into _rule
      from pg_catalog.pg_rewrite r where r.ev_class = 'pg_temp.walagent_condition'::regclass;
    if _rule.tree like '%{SUBLINK%' then
        raise exception 'cannot use a subquery in a condition'
            using errcode = 'WA012', detail = 'A condition depends only on new and old.';
    elsif _rule.tree like '%{COERCETODOMAIN%' then
        raise exception 'cannot cast to a domain in a condition'
            using errcode = 'WA012', detail = 'The check of a domain can call any function.';
    elsif _rule.tree ~ ':varattno -' then
        raise exception 'cannot use a system column in a condition'
            using errcode = 'WA012', detail = 'System columns are not in the WAL.';
    end if;
    for _function in
        select distinct p.oid::regprocedure as name, p.provolatile, p.pronamespace = 'pg_catalog'::regnamespace
               or exists (select from pg_catalog.pg_depend d
                           where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
                  and (select rolsuper from pg_catalog.pg_roles o where o.oid = p.proowner) as trusted
          from regexp_matches(_rule.tree, ':(?:funcid|opfuncid|aggfnoid|winfnoid) (\d+)', 'g') as m
               join pg_catalog.pg_proc p on p.oid = m[1]::oid
    loop
        if _function.provolatile = 'v' or not _function.trusted or _function.name::text ~ '^(pg_|.*_to_xml)' then
            raise exception 'cannot call % in a condition', _function.name
                using errcode = 'WA012', hint = 'Use a non-volatile function of PostgreSQL or an extension.';
        end if;
    end loop;
    for _function in
        select o.oid::regoperator as name
          from regexp_matches(_rule.tree, ':opno (\d+)', 'g') as m
               join pg_catalog.pg_operator o on o.oid = m[1]::oid
         where o.oprnamespace <> 'pg_catalog'::regnamespace
           and not exists (select from pg_catalog.pg_depend d
                            where d.classid = 'pg_operator'::regclass and d.objid = o.oid and d.deptype = 'e')
    loop
        raise exception 'cannot use operator % in a condition', _function.name
            using errcode = 'WA012', hint = 'Use an operator of PostgreSQL or an extension.';
    end loop;
    select coalesce(array_agg(distinct a.attname::text), '{}') into columns
      from pg_catalog.pg_depend d
           join pg_catalog.pg_attribute a on a.attrelid = d.refobjid and a.attnum = d.refobjsubid
     where d.classid = 'pg_rewrite'::regclass and d.objid = _rule.oid
       and d.refobjid = _relation and d.refobjsubid > 0;
    select coalesce(array_agg(distinct a.attname::text), '{}') into old_columns
      from regexp_matches(_rule.tree, ':varno (\d+) :varattno (\d+)', 'g') as m
           join pg_catalog.pg_attribute a on a.attrelid = _relation and a.attnum = m[2]::smallint
     where m[1]::integer = _old and m[2] <> '0';
    whole_row := _rule.tree ~ ':varattno 0 ';
    compiled := agent_internal.view_condition('pg_temp.walagent_condition', _relation, '{new,old}');
    drop view pg_temp.walagent_condition;
    perform agent_internal.check_streamed(_relation, columns, 'the condition', 'WA012');
end;
$$;

-- The argument is the name of an attachment or a table; with a table, all its attachments are detached.  The agent that
-- has the name of a removed attachment goes with it, unless another attachment uses it.
create or replace function agent.detach(target text)
    returns integer
    language plpgsql
as $$
declare
    _names text[];
    _table regclass;
begin
    with removed as (delete from agent.attachment
                      where name = target and tenant = agent.current_tenant() returning name)
    select coalesce(array_agg(name), '{}') into _names from removed;
    if _names = '{}' then
        begin
            _table := to_regclass(target);
        exception when invalid_name then
            null;  -- it names no table; PostgreSQL 15 raises
        end;
        with removed as (delete from agent.attachment
                           where relation = _table and tenant = agent.current_tenant() returning name)
        select coalesce(array_agg(name), '{}') into _names from removed;
    end if;
    if _names = '{}' then
        raise exception 'no attachment or attached table is named "%"', target
            using errcode = 'WA013', hint = agent_internal.suggest(target, (select array_agg(name) from agent.attachment where tenant = agent.current_tenant()));
    end if;
    delete from agent.agent g
     where g.tenant = agent.current_tenant() and g.name = any (_names)
       and not exists (select from agent.attachment a where a.tenant = g.tenant and a.agent = g.name);
    return cardinality(_names);
end;
$$;
