-- A shop with honest tables, and beside them everything that a statement could trip over.
create table customer (
    id         bigint primary key,
    name       text not null,
    email      text,
    country    text not null default 'CH',
    joined_on  date not null default '2024-01-01',
    tags       text[] not null default '{}',
    profile    jsonb not null default '{}',
    version    integer not null default 1,
    system     text,
    "Name"     text,
    "order"    integer,
    location   point,
    visits     int4range,
    document   tsvector
);
create table product (id bigint primary key, name text not null, price numeric(12, 2) not null, parent bigint references product);
create type state as enum ('open', 'paid', 'void');
create table invoice (
    id          bigint primary key,
    customer_id bigint not null references customer,
    state       state not null default 'open',
    issued_at   timestamptz not null default '2026-01-01Z',
    due_on      date,
    total       numeric(12, 2) not null
);
create table line (
    invoice_id bigint not null references invoice,
    position   integer not null,
    product_id bigint not null references product,
    quantity   integer not null check (quantity > 0),
    price      numeric(12, 2) not null,
    discount   numeric(4, 2) not null default 0,
    primary key (invoice_id, position)
);
create table payment (id bigint primary key, invoice_id bigint references invoice, paid_at timestamptz, amount numeric(12, 2), method text);
create table visit (id bigint, at timestamptz not null, page text) partition by range (at);
create table visit_2025 partition of visit for values from ('2025-01-01') to ('2026-01-01');
create table visit_2026 partition of visit for values from ('2026-01-01') to ('2027-01-01');
create materialized view best as select customer_id, sum(total) as total from invoice group by 1;
create view unpaid as select i.*, c.name from invoice i join customer c on c.id = i.customer_id where i.state = 'open';
create view unpaid_twice as select * from unpaid union all select * from unpaid;

insert into customer (id, name, email, country, tags, profile, system, "Name", "order")
select n, 'customer ' || n, case when n % 3 > 0 then 'c' || n || '@shop.example' end, (array['CH', 'DE', 'FR'])[1 + n % 3],
       array['a', 'b'], jsonb_build_object('level', n % 5, 'mail', jsonb_build_array('x', n)), 's' || n, 'N' || n, n
  from generate_series(1, 60) n;
insert into product select n, 'product ' || n, n * 1.5, case when n > 5 then n / 2 end from generate_series(1, 20) n;
insert into invoice select n, 1 + n % 60, (array['open', 'paid', 'void'])[1 + n % 3]::state, timestamptz '2025-06-01Z' + n * interval '1 day', date '2025-07-01' + n, n * 10
  from generate_series(1, 200) n;
insert into line select i, p, 1 + (i + p) % 20, 1 + p % 4, p * 2.5, 0.05 from generate_series(1, 200) i, generate_series(1, 3) p;
insert into payment select n, n, timestamptz '2025-06-02Z' + n * interval '1 day', n * 10, (array['card', 'cash'])[1 + n % 2] from generate_series(1, 100) n;
insert into visit select n, timestamptz '2025-12-01Z' + n * interval '6 hours', '/' || n % 7 from generate_series(1, 300) n;

-- Traps.  Each leaves a trace that no rollback takes back: the sequence moves.
create sequence trace;
create table written (what text);
create function spring(what text) returns integer language plpgsql volatile as $$
begin
    perform pg_advisory_lock_shared(1);  -- also in a read-only transaction
    perform nextval('trace');
    return 1;
end $$;
create function spring_stable(what text) returns integer language plpgsql stable as $$
begin
    perform nextval('trace');
    return 1;
end $$;
create function spring_immutable(what text) returns integer language plpgsql immutable as $$
begin
    perform nextval('trace');
    return 1;
end $$;
-- Called as if it were a column: c.purge.
create function purge(customer) returns integer language sql volatile as $$ select spring('column') $$;
create function writes_as_owner() returns integer language plpgsql security definer as $$
begin
    insert into written values ('definer');
    perform nextval('trace');
    return 1;
end $$;
-- The names of harmless functions, elsewhere.
create schema shadow;
create function shadow.lower(text) returns text language sql volatile as $$ select spring('lower')::text $$;
create function sum(text) returns integer language sql volatile as $$ select spring('sum') $$;

create function spring_operator(customer, integer) returns boolean language sql volatile as $$ select spring('operator') = 1 $$;
create operator === (leftarg = customer, rightarg = integer, function = spring_operator);
create function spring_prefix(bigint) returns bigint language sql volatile as $$ select spring('prefix')::bigint $$;
create operator !~! (rightarg = bigint, function = spring_prefix);

create type wrapped as (inner_value text);
create function spring_cast(wrapped) returns integer language sql volatile as $$ select spring('cast') $$;
create cast (wrapped as integer) with function spring_cast(wrapped) as implicit;

create function spring_check(text) returns boolean language plpgsql volatile as $$
begin
    perform pg_advisory_lock_shared(1);
    perform nextval('trace');
    return true;
end $$;
create domain checked as text check (spring_check(value));
create domain harmless as integer check (value between 0 and 1000000);
create type holder as (value checked);
create type "double" as (value checked);
create type "varying" as (value checked);
create type "varchar " as (value checked);  -- a no-break space is a letter to PostgreSQL
create function public.extract(holder) returns integer language sql immutable as 'select 1';
create type range_of_numbers as range (subtype = numeric);
create table held (id integer, value harmless, many checked[], one holder);
insert into held (id, value) values (1, 7);

create function spring_step(integer, integer) returns integer language sql volatile as $$ select spring('aggregate') $$;
create aggregate spring_all(integer) (sfunc = spring_step, stype = integer, initcond = '0');
create aggregate spring_window(integer) (sfunc = spring_step, stype = integer, initcond = '0', msfunc = spring_step, minvfunc = spring_step, mstype = integer, minitcond = '0');

-- Functions in SQL, whose bodies say whether they are harmless.
create function full_price(price numeric, quantity integer) returns numeric language sql immutable as 'select price * quantity';
create function name_of(bigint) returns text language sql stable return (select name from customer where id = $1);
create function customers_of(code text) returns setof customer language sql stable as 'select * from customer where country = code';
create function priced_twice(numeric) returns numeric language sql immutable begin atomic select full_price($1, 2) where 'a' <> 'b'; end;
create view priced as select id, full_price(price, 2) as double from product;
create function calls_spring(text) returns integer language sql stable as 'select spring_stable($1)';
create function calls_spring_twice(text) returns integer language sql stable begin atomic select calls_spring($1); end;
create function reads_setting() returns text language sql stable as $$ select current_setting('data_directory') $$;
create function sets_role() returns text language sql stable as $$ select set_config('role', 'none', false) $$;
create function as_owner() returns bigint language sql stable security definer as 'select count(*) from customer';
create function parses() returns holder language sql immutable as $$ select '(x)'::holder $$;
create function parses_dollars() returns holder language sql immutable as 'select $a$(x)$a$::holder';
create function elsewhere() returns text language sql stable set search_path = shadow as $$ select lower('X') $$;
create function two_statements() returns integer language sql stable as 'select spring_stable(''x''); select 1';
create function closes() returns integer language sql stable as 'select 1; end; select spring(''x'')';
create view full_of_spring as select calls_spring(name) from customer;

-- What functions of PostgreSQL call for the types of their arguments.
create type colour as enum ('red', 'blue');
create function spring_json(colour) returns json language sql volatile as $$ select to_json(spring('json')) $$;
create cast (colour as json) with function spring_json(colour);
create table paint (id integer, colour colour, many colour[]);
insert into paint values (1, 'red', '{red,blue}');
create function spring_rank(wrapped, wrapped) returns integer language sql volatile as $$ select spring('rank') - 1 $$;
create operator class wrapped_rank default for type wrapped using btree as function 1 spring_rank(wrapped, wrapped);
create type range_of_wrapped as range (subtype = wrapped, subtype_opclass = wrapped_rank);
create table ranked (id integer, value wrapped, span range_of_wrapped);
insert into ranked (id, value) values (1, row('a')), (2, row('b'));

create view trapped as select spring('view') as x, id from customer;
create view trapped_twice as select * from trapped;
create view locking as select * from invoice for update;
create view trapped_condition as select id from customer where spring_stable('where') = 1;
create materialized view trapped_once as select 1 as x;

-- Row security: the reader sees the customers of one country.
create table secret (id integer primary key, country text not null, word text not null);
insert into secret values (1, 'CH', 'mine'), (2, 'DE', 'not mine');
alter table secret enable row level security;
create policy by_country on secret using (country = coalesce(nullif(current_setting('app.country', true), ''), 'CH'));
