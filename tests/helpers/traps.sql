-- Traps: in schema evil, whatever has a name of PostgreSQL's, with the arguments that are its own or fit better.  Who comes
-- into one is noted, and goes on as if nothing had been.
create schema evil;
grant usage on schema evil to public;

create function evil.note(_name text)
    returns boolean
    language plpgsql
    set search_path = pg_catalog
as $$
begin
    raise warning 'OWNED trap % as % ESCAPED', _name, current_user;
    return true;
end;
$$;

create function pg_temp.t(oid) returns text language sql as 'select format_type($1, null)';

do $do$
declare
    _one  record;
    _args text;
begin
    for _one in
        select 'op_' || o.oid as name, oprresult as result, false as many, array_remove(array[oprleft, oprright], 0::oid) as types,
               case when oprleft = 0 then format('operator(pg_catalog.%s) $1', oprname)
                    else format('$1 operator(pg_catalog.%s) $2', oprname) end as truth,
               format('create operator evil.%s (procedure = evil.op_%s%s, rightarg = %s)', oprname, o.oid,
                      ', leftarg = ' || pg_temp.t(nullif(oprleft, 0)), pg_temp.t(oprright)) as more
          from pg_operator o where oprnamespace = 'pg_catalog'::regnamespace
        union all
        select proname, prorettype, proretset, proargtypes::oid[],
               format('pg_catalog.%I(%s)', proname, (select string_agg('$' || n, ', ') from generate_series(1, pronargs) n)), null
          from pg_proc where pronamespace = 'pg_catalog'::regnamespace and prokind in ('f', 'a') and provariadic = 0
    loop
        select string_agg(pg_temp.t(t), ', ' order by n) into _args from unnest(_one.types) with ordinality x (t, n);
        begin
            execute format('create function evil.%I(%s) returns %s %s language plpgsql as $f$ begin perform evil.note(%L); %s; end $f$',
                           _one.name, _args, case when _one.many then 'setof' end, pg_temp.t(_one.result), _one.name,
                           case when _one.many then 'return query select * from ' || _one.truth
                                when _one.result = 'void'::regtype then 'perform ' || _one.truth
                                else 'return ' || _one.truth end);
            execute coalesce(_one.more, 'select 1');
        exception when others then
            continue;  -- of types that no other function can have
        end;
    end loop;
    -- What takes any element is beaten by what takes this one.
    for _one in select name, type from unnest('{to_jsonb,to_json}'::text[]) name,
                                       unnest('{text,jsonb,integer,bigint,boolean,text[],name,record,pg_replication_slots}'::text[]) type
    loop
        execute format('create function evil.%I(%s) returns %s language plpgsql as $f$ begin perform evil.note(%L); return pg_catalog.%I($1); end $f$',
                       _one.name, _one.type, substr(_one.name, 4), _one.name, _one.name);
    end loop;
    for _one in
        select c.relname as name, string_agg(quote_ident(a.attname), ', ' order by a.attnum) as columns
          from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.atttypid <> 'anyarray'::regtype
         where c.relnamespace = 'pg_catalog'::regnamespace and c.relkind in ('r', 'v')
         group by c.relname
    loop
        begin
            execute format('create view evil.%1$I as select %2$s from pg_catalog.%1$I where evil.note(%1$L)', _one.name, _one.columns);
            execute format('grant select on evil.%I to public', _one.name);
        exception when invalid_table_definition then
            continue;  -- with columns that no other relation can have
        end;
    end loop;
end
$do$;
