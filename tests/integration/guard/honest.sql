-- One statement a line; all of them must be accepted, and run.
select 1
select 1;
select 1 ; -- with a comment
/* first */ select /* second /* nested */ */ 1 -- third
(select 1)
((select 1) union (select 2))
SELECT 1 AS one
values (1, 'a'), (2, 'b')
table customer
select from customer
select count(*) from customer
select c.* from customer c order by c.id limit 5
select version, system from customer
select version from customer where system like 's%'
select "Name", "order" from customer order by "order" desc nulls last fetch first 3 rows with ties
select name as "a ""quoted"" name; with everything -- in it" from customer limit 1
select 'it''s; drop table customer' as text, e'a\'b', $$ $1; -- $$, $tag$ x $$ y $tag$
select U&"\006eame" from customer limit 1
select id, id, name, name from customer limit 1
select 1, 2, 3 as "3", null, true, 1.5, 'x', b'101', x'1f'
select version()
select now(), current_date, current_time, localtimestamp, clock_timestamp(), statement_timestamp(), timeofday()
select current_user, session_user, current_database(), current_schema, current_catalog
select random() < 2, gen_random_uuid() is not null
select country, count(*), avg(total), min(total), max(total), sum(total) from customer c join invoice i on i.customer_id = c.id group by country having count(*) > 1 order by 2 desc
select c.name, count(i.id) filter (where i.state = 'paid') as paid from customer c left join invoice i on i.customer_id = c.id group by c.id
select country, state, grouping(country, state), sum(total) from customer c join invoice i on i.customer_id = c.id group by grouping sets ((country, state), (country), ())
select country, state, sum(total) from customer c join invoice i on i.customer_id = c.id group by rollup (country, state)
select country, state, sum(total) from customer c join invoice i on i.customer_id = c.id group by cube (country, state)
select distinct country from customer
select distinct on (country) country, name from customer order by country, joined_on desc, id
select id, total, sum(total) over w as running, rank() over w, lag(total, 1, 0::numeric) over w, ntile(4) over w from invoice window w as (partition by customer_id order by issued_at)
select issued_at, avg(total) over (order by issued_at range between interval '7 days' preceding and current row) from invoice
select id, sum(total) over (order by id rows between 2 preceding and 1 following exclude current row) from invoice
select id, first_value(total) over (order by id groups between unbounded preceding and current row), percent_rank() over (order by total) from invoice
select percentile_cont(array[0.25, 0.5, 0.75]) within group (order by total), mode() within group (order by state) from invoice
select stddev(total), variance(total), corr(total, id), regr_slope(total, id) from invoice
with paid as (select * from invoice where state = 'paid') select customer_id, sum(total) from paid group by 1
with a as materialized (select 1 as x), b as not materialized (select x + 1 as x from a) select * from a, b
with recursive tree (id, name, depth, path) as (select id, name, 0, array[id] from product where parent is null union all select p.id, p.name, t.depth + 1, t.path || p.id from product p join tree t on p.parent = t.id) select * from tree order by path
with recursive tree as (select id, parent from product where id = 20 union select p.id, p.parent from product p join tree t on t.parent = p.id) search depth first by id set ordercol cycle id set is_cycle using path select * from tree
with recursive n (x) as (values (1) union all select x + 1 from n where x < 100) select sum(x) from n
select * from customer where id in (select customer_id from invoice where total > 500)
select * from customer c where exists (select 1 from invoice i where i.customer_id = c.id and i.total > 500)
select * from customer c where not exists (select from invoice i where i.customer_id = c.id)
select name, (select max(total) from invoice i where i.customer_id = c.id) as most from customer c
select * from customer where (country, version) = ('CH', 1)
select * from customer where (country, name) in (('CH', 'customer 3'), ('DE', 'customer 4'))
select * from invoice where total > all (select total from invoice where state = 'void')
select * from customer where name = any (array['customer 1', 'customer 2'])
select c.name, t.* from customer c cross join lateral (select id, total from invoice i where i.customer_id = c.id order by total desc limit 2) t
select * from customer a join customer b using (country) where a.id < b.id limit 10
select * from customer natural join (select id, 1 as one from customer) x
select * from invoice i full join payment p on p.invoice_id = i.id where i.id is null or p.id is null
select * from invoice i right join payment p on p.invoice_id = i.id
select id from customer union select id from product union all select id from invoice except select 3 intersect select 4
select country, array_agg(name order by name), string_agg(name, ', ' order by id desc), json_agg(name), jsonb_object_agg(id, name) from customer group by country
select unnest(tags), name from customer
select * from unnest(array[1, 2], array['a', 'b']) with ordinality as t (n, s, o)
select tags[1], tags[1:2], array_length(tags, 1), cardinality(tags), tags || array['z'], 'a' = any (tags), tags && array['b'] from customer
select profile ->> 'level', profile -> 'mail' -> 0, profile #>> '{mail,1}', profile ? 'level', profile @> '{"level": 1}' from customer
select profile['level'] from customer
select jsonb_path_query(profile, '$.mail[*]') from customer
select jsonb_path_exists(profile, '$.level ? (@ > 2)') from customer
select key, value from customer, jsonb_each_text(profile)
select * from jsonb_to_recordset('[{"a": 1, "b": "x"}]') as t (a integer, b text)
select * from json_populate_record(null::product, '{"id": 1, "name": "x", "price": 2}')
select jsonb_pretty(profile), jsonb_typeof(profile), jsonb_set(profile, '{level}', '7'), profile - 'mail' from customer
select to_jsonb(c), row_to_json(c) from customer c limit 2
select json_build_object('id', id, 'name', name), json_build_array(id, name) from customer
select date_trunc('month', issued_at) as month, sum(total) from invoice group by 1 order by 1
select extract(year from issued_at), extract(dow from issued_at), date_part('week', issued_at) from invoice
select issued_at at time zone 'Europe/Zurich', issued_at::date, issued_at + interval '1 month', age(issued_at) from invoice
select due_on - issued_at::date as days, due_on between date '2025-01-01' and date '2025-12-31' from invoice
select to_char(issued_at, 'YYYY-MM-DD'), to_char(total, 'FM999G990D00'), to_date('2025-01-02', 'YYYY-MM-DD'), to_timestamp(0), make_date(2025, 1, 2) from invoice
select generate_series(date '2025-01-01', date '2025-03-01', interval '1 week')
select d::date, coalesce(sum(total), 0) from generate_series(timestamptz '2025-06-01Z', '2025-07-01Z', '1 day') d left join invoice i on i.issued_at >= d and i.issued_at < d + interval '1 day' group by 1 order by 1
select (date '2025-01-01', date '2025-02-01') overlaps (date '2025-01-15', date '2025-03-01')
select date_bin('15 minutes', issued_at, timestamptz '2025-01-01Z') from invoice
select upper(name), lower(name), initcap(name), length(name), left(name, 3), right(name, 2), reverse(name), repeat('x', 3), substring(name from 2 for 3), position('o' in name), trim(both ' ' from name), lpad(name, 20, '.'), replace(name, 'c', 'k'), split_part(name, ' ', 2), translate(name, 'abc', 'xyz'), concat_ws('-', id, name), format('%s (%s)', name, id), md5(name), sha256('x') from customer
select name ~ '^c.*1$', name ~* 'CUSTOMER', name like '%1%', name ilike '%C%', name similar to '%(1|2)%', regexp_replace(name, '\d+', '#'), regexp_matches(name, '(\d)', 'g'), regexp_split_to_array(name, ' ') from customer
select starts_with(name, 'c'), ascii('a'), chr(65), encode('abc', 'base64'), decode('616263', 'hex'), quote_literal(name), quote_ident(name) from customer limit 3
select abs(-1), ceil(1.2), floor(1.8), round(1.257, 2), trunc(1.9), mod(7, 3), 7 % 3, power(2, 10), sqrt(2), exp(1), ln(2), log(100), pi(), sign(-3), width_bucket(total, 0, 1000, 10), greatest(1, 2), least(1, 2), div(7, 2), gcd(12, 18) from invoice
select 1 << 3, 5 & 3, 5 | 3, 5 # 3, ~5, |/ 25.0, @ -5
select case when total > 500 then 'large' when total > 100 then 'middle' else 'small' end as size, count(*) from invoice group by 1
select case state when 'open' then 1 else 0 end from invoice
select coalesce(email, 'none'), nullif(country, 'CH'), email is null, email is not null, email is distinct from name from customer
select state, state::text, enum_range(null::state), state > 'open' from invoice
select total::integer, total::text, '1'::integer + 1, cast('2025-01-01' as date), '{1,2}'::integer[], 't'::boolean, '1 day'::interval, '[1,5)'::int4range, '(1,2)'::point from invoice
select value, value::harmless, 5::harmless, '7'::harmless from held
select visits, '[1,5)'::int4range @> 3, int4range(1, 5) * int4range(3, 8), upper('[1,5)'::int4range) from customer
select range_of_numbers(1.0, 2.0) @> 1.5
select location, point(1, 2) <-> point(3, 4), box(point(0, 0), point(1, 1)) @> point(0.5, 0.5) from customer limit 2
select to_tsvector('english', name) @@ to_tsquery('english', 'customer & 1'), ts_rank(to_tsvector(name), plainto_tsquery('customer')), ts_headline(name, websearch_to_tsquery('customer')) from customer
select name, document from customer where document @@ 'x'::tsquery
select ts_rewrite('a & b'::tsquery, 'a'::tsquery, 'c'::tsquery)
select * from customer tablesample system (50)
select * from customer tablesample bernoulli (50) repeatable (7)
select * from visit where at >= '2026-01-01'
select page, count(*) from visit group by page order by count(*) desc
select tableoid::regclass, count(*) from visit group by 1
select ctid, xmin, * from customer limit 1
select * from visit_2025 limit 3
select * from best order by total desc
select * from unpaid where total > 100
select count(*) from unpaid_twice
select * from secret
select row(1, 'a'), row(1, 2) < row(1, 3), (row(1, 'a')).f1
select (c).name, (c.*)::text from customer c limit 1
select (i.c).country from (select c from customer c) i limit 1
select array(select id from customer order by id limit 3), array[[1, 2], [3, 4]]
select array_position(tags, 'b'), array_remove(tags, 'a'), array_to_string(tags, '/'), string_to_array('a,b', ',') from customer limit 1
select corr(i.total::float8, p.amount::float8) from invoice i join payment p on p.invoice_id = i.id
select count(distinct country), count(distinct (country, version)), bool_and(version = 1), every(id > 0), bit_or(version) from customer
select inet '10.0.0.1' << inet '10.0.0.0/8', host('10.0.0.1/8'::inet), macaddr '08:00:2b:01:02:03', '1.5'::money, '<a/>'::text, uuid '00000000-0000-0000-0000-000000000000'
select 'NaN'::numeric, 'Infinity'::float8, '-infinity'::date, '4713-01-01 BC'::date, '24:00'::time, interval '-1 year 2 days', '\xdeadbeef'::bytea, null::uuid
select pg_typeof(total), pg_column_size(total), pg_size_pretty(1024::bigint) from invoice limit 1
select pg_size_pretty(pg_total_relation_size('customer')), pg_relation_size('customer'), pg_table_size('customer'), pg_indexes_size('customer'), pg_database_size(current_database()) > 0
select has_table_privilege('customer', 'select'), to_regclass('customer'), 'customer'::regclass::oid > 0, obj_description('customer'::regclass), col_description('customer'::regclass, 1), format_type(23, null)
select table_schema, table_name, table_type from information_schema.tables where table_schema = 'public' order by 2
select column_name, data_type, is_nullable, column_default from information_schema.columns where table_name = 'customer' order by ordinal_position
select tc.table_name, kcu.column_name, ccu.table_name from information_schema.table_constraints tc join information_schema.key_column_usage kcu using (constraint_schema, constraint_name) join information_schema.constraint_column_usage ccu using (constraint_schema, constraint_name) where tc.constraint_type = 'FOREIGN KEY'
select * from information_schema.schemata
select * from information_schema.views where table_schema = 'public'
select * from information_schema.routines where routine_schema = 'public' limit 3
select relname, reltuples, relkind from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = 'public' order by 1
select attname, format_type(atttypid, atttypmod), attnotnull from pg_attribute where attrelid = 'customer'::regclass and attnum > 0 order by attnum
select conname, pg_get_constraintdef(oid) from pg_constraint where conrelid = 'invoice'::regclass
select indexname, indexdef from pg_indexes where tablename = 'customer'
select pg_get_viewdef('unpaid'::regclass, true), pg_get_indexdef('customer_pkey'::regclass)
select enumlabel from pg_enum e join pg_type t on t.oid = e.enumtypid where t.typname = 'state' order by enumsortorder
select schemaname, relname, n_live_tup from pg_stat_user_tables order by 2
select tablename, attname, n_distinct from pg_stats where schemaname = 'public' limit 5
select * from pg_tables where schemaname = 'public'
select * from pg_views where schemaname = 'public' limit 2
select rolname from pg_roles order by 1 limit 3
select last_value from trace
explain select * from customer
explain verbose select * from customer where id = 1
explain analyze select count(*) from customer
explain analyze verbose select 1
explain (analyze, buffers, timing off, format json) select * from invoice order by total
explain (costs off) with x as (select 1) select * from x
explain (select 1)
explain /* options follow */ (verbose true) select 1
explain values (1)
select * from (select * from (select * from (select 1 as x) a) b) c
select a.id from customer a, customer b, customer c where a.id = b.id and b.id = c.id
select 1 where false
select max(id) from customer where false
select null
select count(*) from customer where name = 'delete from customer; drop table customer'
select 'insert' as "update", 'delete' as "drop", 1 as "select"
select name as update, id as delete, country as insert from customer limit 1
select id as "copy", total as "lock" from invoice limit 1
select jsonb_agg(x) from (select distinct country as x from customer order by 1) s
select sum(case when i.state = 'paid' then l.quantity * l.price * (1 - l.discount) else 0 end) as revenue, date_trunc('quarter', i.issued_at) as quarter from invoice i join line l on l.invoice_id = i.id group by 2 order by 2
select c.country, p.name, sum(l.quantity) as sold, rank() over (partition by c.country order by sum(l.quantity) desc) from line l join invoice i on i.id = l.invoice_id join customer c on c.id = i.customer_id join product p on p.id = l.product_id group by c.country, p.id having sum(l.quantity) > 1 order by 1, 4
with monthly as (select date_trunc('month', issued_at) as month, customer_id, sum(total) as total from invoice group by 1, 2), ranked as (select *, row_number() over (partition by month order by total desc) as place from monthly) select month, name, total, total / sum(total) over (partition by month) as share from ranked join customer c on c.id = customer_id where place <= 3 order by month, place
with firsts as (select customer_id, min(date_trunc('month', issued_at)) as cohort from invoice group by 1) select f.cohort, extract(month from age(date_trunc('month', i.issued_at), f.cohort)) as months, count(distinct i.customer_id) from firsts f join invoice i using (customer_id) group by 1, 2 order by 1, 2
select i.id, i.total, coalesce(sum(p.amount), 0) as paid, i.total - coalesce(sum(p.amount), 0) as due from invoice i left join payment p on p.invoice_id = i.id group by i.id having i.total > coalesce(sum(p.amount), 0) order by due desc limit 10
select method, count(*), sum(amount), round(100.0 * count(*) / sum(count(*)) over (), 1) as percent from payment group by method
select l.product_id, sum(l.price * l.quantity) from line l where l.price < (select 0.9 * avg(x.price) from line x where x.product_id = l.product_id) group by 1
select o.state, count(*) from (select i.id, i.state from invoice i left outer join payment p on p.invoice_id = i.id and p.method not like '%cash%' group by i.id, i.state) as o group by 1
select nation, year, sum(amount) from (select c.country as nation, extract(year from i.issued_at) as year, l.price * (1 - l.discount) - 1.0 * l.quantity as amount from line l, invoice i, customer c, product p where l.invoice_id = i.id and c.id = i.customer_id and p.id = l.product_id and p.name like '%1%') as profit group by nation, year order by nation, year desc
select 100.00 * sum(case when p.name like 'product 1%' then l.price * (1 - l.discount) else 0 end) / sum(l.price * (1 - l.discount)) as share from line l, product p where l.product_id = p.id
with revenue (customer_no, total) as (select customer_id, sum(total) from invoice where issued_at >= date '2025-06-01' and issued_at < date '2025-06-01' + interval '3 months' group by customer_id) select c.id, c.name, total from customer c, revenue where c.id = customer_no and total = (select max(total) from revenue)
select count(*) from (select distinct c.name, i.issued_at::date from customer c, invoice i where i.customer_id = c.id intersect select distinct c.name, v.at::date from customer c, visit v where v.id = c.id) both_of_them
select substring(email from 1 for 2) as code, count(*), sum(version) from customer c where substring(email from 1 for 2) in ('c1', 'c2') and not exists (select * from payment p where p.invoice_id = c.id) group by 1 order by 1
select avg(total) filter (where state = 'paid') - avg(total) filter (where state = 'open') as gap, count(*) filter (where due_on < current_date) as late from invoice
select width_bucket(total, array[100, 500, 1000]::numeric[]) as bucket, count(*) from invoice group by 1 order by 1
select lead(issued_at) over (partition by customer_id order by issued_at) - issued_at as gap, nth_value(total, 2) over (partition by customer_id order by issued_at), cume_dist() over (order by total), dense_rank() over (order by total) from invoice
select * from (select customer_id, issued_at, issued_at - lag(issued_at) over (partition by customer_id order by issued_at) > interval '30 days' as new_session from invoice) s where new_session
select country || ': ' || count(*) as label from customer group by country order by count(*) desc, country
select to_jsonb(i), json_agg(c) from invoice i join customer c on c.id = i.customer_id group by i
select id, colour, many from paint where colour = 'red' and 'blue' = any(many) order by colour
select distinct tags from customer where visits && '[1,5)' or visits is null
select jsonb_object_agg(name, joined_on) from customer where joined_on >= date '2024-01-01' and name not in ('a', 'b')
select row_to_json(q) from (select id, value from held) q
select concat('a', 'b', 1), format('%s of %s', 1, 'x'), json_build_object('a', 1, 'b', 'x'), num_nulls('a', null)
select array_position(tags, 'a'), tags @> '{a}', row(id, name) < row(5, 'x'), greatest(name, 'x') from customer
select repeat('*', count(*)::int), lpad(country, 20), rpad('a', 100, '-') from customer group by country
select repeat('-', 40), format('%10s|%-5s', name, country), array_fill(0, array[10, 10]) from customer
select repeat('█', (total / 100)::int), replace(name, ' ', '_') from invoice join customer c on c.id = customer_id
select repeat('x', least(id, 1000)::int), repeat('*', round(10 * 0.5)::int) from customer
select n, repeat('#', n) from generate_series(1, 10) n
select full_price(price, 3), priced_twice(price) from product
select name_of(id) from customer where id < 5
select name from customers_of('CH') order by 1
select * from priced
select pg_is_in_recovery(), pg_function_is_visible('spring'::regproc)
select name, default_version from pg_available_extensions limit 1
select proname, provolatile, pg_get_function_arguments(oid) from pg_proc where proname = 'full_price'
select array_to_string(array_agg(name order by id), ', '), encode(sha256('x'), 'hex'), quote_literal(min(name)) from customer
select 'a'::char(10), 5::bit(16), 'x'::character varying(5), double precision '1.5', format('%-20s|%5s', 'a', 'b')
select replace(replace(replace(replace(replace(name, ' ', ''), '-', ''), '(', ''), ')', ''), '+', ''), count(*) from customer where country <> 'Switzerland' group by replace(replace(replace(replace(replace(name, ' ', ''), '-', ''), '(', ''), ')', ''), '+', '')
select repeat('x', '5'), state = 'open', name = 'open' from invoice join customer c on c.id = customer_id
select n'a' = 'a', name is distinct from 'x', (name, 'y') is not distinct from ('x', name) from customer
