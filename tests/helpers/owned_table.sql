-- Code of an owner in every place that planning, reading or writing a table executes; see owned_table.py.
create role the_owner;
create schema owned authorization the_owner;
set role the_owner;
create function owned.act(place text) returns void language plpgsql as $$
declare
    me   constant name := current_user;
    goal text;
begin
    if me = 'the_owner' or not exists (select from pg_namespace where nspname = 'agent_internal') then
        return;
    end if;
    foreach goal in array array[
        'set role none', 'reset role', 'set session authorization default',
        'select key from agent_internal.secret', 'select from agent.run', 'copy (select 1) to program ''true''',
        'select pg_ls_dir(''.'')', 'select pg_create_logical_replication_slot(''stolen'', ''test_decoding'')'] loop
        begin
            execute goal;
            if goal !~ '^(re)?set' or current_user <> me then
                raise warning 'OWNED % ESCAPED as % of % by %', place, current_user, session_user, goal;
            end if;
        exception when others then null;
        end;
    end loop;
    if (select rolsuper from pg_roles where rolname = me) then
        raise warning 'OWNED % ESCAPED: executed as superuser %', place, me;
    end if;
    raise warning 'OWNED % as % of %', place, me, session_user;
end
$$;
create function owned.index_key(int) returns int language plpgsql immutable as $$ begin perform owned.act('index'); return $1; end $$;
create function owned.index_where(int) returns int language plpgsql immutable as $$ begin perform owned.act('index predicate'); return $1; end $$;
create function owned.statistic(int) returns int language plpgsql immutable as $$ begin perform owned.act('statistics'); return $1; end $$;
create function owned.partition(int) returns int language plpgsql immutable as $$ begin perform owned.act('partition key'); return $1; end $$;
create function owned.policy(int) returns boolean language plpgsql stable as $$ begin perform owned.act('policy'); return true; end $$;
create function owned.is_valid(int) returns boolean language plpgsql immutable as $$ begin perform owned.act('check'); return true; end $$;
create function owned.made(int) returns int language plpgsql immutable as $$ begin perform owned.act('generated column'); return $1; end $$;
create function owned.filled() returns int language plpgsql as $$ begin perform owned.act('default'); return 0; end $$;
create function owned.fired() returns trigger language plpgsql as $$ begin perform owned.act('trigger'); return new; end $$;
create domain owned.number as int check (owned.is_valid(value));
create table owned.stock (
    id       int primary key,
    n        int,
    kind     text,
    filled   int default owned.filled(),
    made     int generated always as (owned.made(n)) stored,
    number   owned.number,
    check (owned.is_valid(n))
);
insert into owned.stock (id, n, kind, number) select g, g, 'a', g from generate_series(1, 100) g;
create index on owned.stock ((n + owned.index_key(1)));
create index on owned.stock (n) where n > owned.index_where(0);
create statistics owned.counted on (n + owned.statistic(1)), (n * owned.statistic(2)) from owned.stock;
create trigger fired before insert or update on owned.stock for each row execute function owned.fired();
alter table owned.stock enable row level security;
create policy shown on owned.stock using (owned.policy(n));
create table owned.parted (id int not null, n int, check (owned.is_valid(n))) partition by range ((n + owned.partition(0)));
create table owned.part_1 partition of owned.parted for values from (minvalue) to (maxvalue);
create index on owned.parted ((n + owned.index_key(1)));
insert into owned.parted select g, g from generate_series(1, 100) g;
create table owned.prices (
    id     int primary key,
    n      int,
    kind   text,
    number owned.number,
    check (owned.is_valid(n))
);
insert into owned.prices (id, n, kind, number) select g, g, 'a', g from generate_series(1, 100) g;
create index on owned.prices ((n + owned.index_key(1)));
create index on owned.prices (n) where n > owned.index_where(0);
create statistics owned.priced on (n + owned.statistic(1)), (n * owned.statistic(2)) from owned.prices;
create function owned.plain(x text) returns text language plpgsql as $$ begin perform owned.act('function'); return x; end $$;
create view owned.shown as select id, n, owned.policy(n) as ok from owned.stock;
grant usage on schema owned to public;
grant select on all tables in schema owned to public;
reset role;
analyze owned.stock, owned.parted, owned.prices;
