-- One statement a line; none of them may ever be accepted.
insert into written values ('x')
update customer set name = 'x'
delete from customer
truncate customer
merge into customer c using product p on c.id = p.id when matched then delete
with d as (delete from customer returning 1) select count(*) from d
with d as (insert into written values ('x') returning 1) select * from d
with d as (update customer set name = name returning *) table d
select * into stolen from customer
create table stolen as select * from customer
create temp table stolen as select 1
create view stolen as select 1
create function f() returns int language sql as 'select 1'
drop table customer
alter table customer add column x int
grant select on customer to public
copy customer to stdout
copy customer to program 'true'
copy customer from stdin
do $$ begin perform spring('do'); end $$
call nothing()
explain analyze delete from customer
explain (analyze) insert into written values ('x')
explain analyze with d as (delete from customer returning 1) select * from d
explain analyze create table stolen as select 1
explain analyze select spring('x')
explain (settings) select 1
explain (analyze, settings true) select 1
explain execute p
prepare p as select 1
execute p
deallocate all
declare c cursor for select 1
fetch all from c
set role postgres
set session authorization postgres
set search_path = shadow
set local statement_timeout = 0
reset role
reset all
show all
show server_version
discard all
begin
commit
rollback
savepoint a
set transaction read write
start transaction read write
lock table customer
listen x
notify x
vacuum customer
analyze customer
cluster
checkpoint
reindex table customer
refresh materialized view best
load 'auto_explain'
security label on table customer is 'x'
comment on table customer is 'x'
import foreign schema public from server x into public
select 1; select 2
select 1; drop table customer
select 1; commit; drop table customer
select 1) q; drop table customer; --
select 1) q, (select spring('x')
select spring('x')
select spring_stable('x')
select spring_immutable('x')
select public.spring('x')
select "spring"('x')
select "public"."spring"('x')
select U&"\0073pring"('x')
select spring(what => 'x')
select * from spring('x')
select * from customer, lateral spring(name)
select * from rows from (spring('x'), generate_series(1, 2)) as t
select c.purge from customer c
select (c).purge from customer c
select purge(c) from customer c
select (customer).purge from customer
select (select c.purge) from customer c
select id from customer c where c.purge = 1
select id from customer c order by c.purge
select count(*) from customer c group by c.purge
select count(*) from customer c having max(c.purge) > 0
select count(*) filter (where c.purge = 1) from customer c
select row_number() over (order by c.purge) from customer c
select row_number() over (partition by c.purge) from customer c
select distinct on (c.purge) id from customer c
select id from customer limit spring('x')
select id from customer offset spring('x')
select id from customer tablesample bernoulli (spring('x'))
select * from customer a join customer b on spring('x') = a.id
values (spring('x'))
table trapped
select case when spring('x') = 1 then 1 end
select coalesce(null, spring('x'))
select nullif(spring('x'), 2)
select greatest(1, spring('x'))
select array[spring('x')]
select array(select spring('x'))
select row(spring('x'))
select spring('x')::text
select exists (select spring('x'))
select 1 in (select spring('x'))
select 1 = any (array[spring('x')])
select (array[1, 2])[spring('x')]
with x as (select spring('x')) select 1 from x
with x as materialized (select spring('x')) select 1
with recursive x (n) as (select 1 union all select n + spring('x') from x where n < 3) select * from x
select 1 union select spring('x')
select 1 intersect all select spring('x')
(select 1) except (select spring('x'))
select * from (values (1, spring('x'))) v
select string_agg(name, ',' order by spring('x')) from customer
select percentile_cont(0.5) within group (order by spring('x')) from customer
select sum(spring('x')) over (rows between spring('x') preceding and current row) from customer
select json_build_object('a', spring('x'))
select xmlelement(name a, spring('x'))
select c === 1 from customer c
select * from customer c where c === 1
select c operator(public.===) 1 from customer c
select !~! id from customer
select row('x')::wrapped::integer
select 1 + row('x')::wrapped
select cast(row('x')::wrapped as integer)
select 'x'::checked
select cast('x' as checked)
select checked 'x'
select '{x}'::checked[]
select '(x)'::holder
select row('x')::holder
select name::checked from customer
select array[name]::checked[] from customer
select * from held where many = '{x}'
select * from held where one = '(x)'
select * from json_to_recordset('[{"a": "x"}]') as t (a checked)
select json_populate_record(null::holder, '{"value": "x"}')
select jsonb_populate_recordset(null::holder, '[{"value": "x"}]')
select * from jsonb_to_record('{"a": {"value": "x"}}') as t (a holder)
select spring_all(1)
select spring_all(id::integer) from customer
select spring_all(1) over ()
select spring_window(1) over (rows between 1 preceding and current row) from customer
select sum('x'::text)
select shadow.lower('x')
select writes_as_owner()
select * from trapped
select count(*) from trapped_twice
select id from trapped_condition
select * from locking
select * from customer for update
select * from customer for no key update
select * from customer for share
select * from customer for key share skip locked
select * from (select * from customer for update) x
with x as (select * from customer for update) select * from x
select nextval('trace')
select setval('trace', 1)
select currval('trace')
select lastval()
select pg_sleep(1)
select pg_sleep_for('1 second')
select pg_sleep_until('2030-01-01')
select set_config('role', 'postgres', false)
select set_config('app.country', 'DE', false) from secret
select * from (select set_config('app.country', 'DE', false) offset 0) s, secret
select current_setting('app.country')
select current_setting('data_directory', true)
select * from pg_settings
select * from pg_file_settings
select * from pg_hba_file_rules
select * from pg_shadow
select * from pg_authid
select * from pg_user_mapping
select * from pg_user_mappings
select * from pg_stat_activity
select * from pg_stat_replication
select * from pg_replication_slots
select * from pg_subscription
select * from pg_foreign_server
select * from pg_largeobject
select * from pg_prepared_statements
select * from pg_cursors
select * from pg_config
select * from pg_backend_memory_contexts
select * from information_schema.user_mapping_options
select * from information_schema.foreign_server_options
select pg_read_file('/etc/passwd')
select pg_read_binary_file('/etc/passwd')
select pg_ls_dir('/')
select * from pg_ls_dir('/')
select pg_stat_file('/etc/passwd')
select pg_current_logfile()
select lo_import('/etc/passwd')
select lo_export(1, '/tmp/x')
select lo_create(0)
select lo_from_bytea(0, 'x')
select lo_unlink(1)
select lo_get(1)
select loread(1, 1)
select pg_terminate_backend(1)
select pg_cancel_backend(1)
select pg_reload_conf()
select pg_rotate_logfile()
select pg_switch_wal()
select pg_create_restore_point('x')
select pg_promote()
select pg_notify('a', 'b')
select pg_logical_emit_message(true, 'a', 'b')
select pg_create_physical_replication_slot('x')
select pg_create_logical_replication_slot('x', 'pgoutput')
select pg_drop_replication_slot('x')
select * from pg_logical_slot_peek_changes('x', null, null)
select pg_replication_origin_create('x')
select pg_export_snapshot()
select pg_advisory_lock(1)
select pg_try_advisory_lock(1)
select pg_advisory_xact_lock(1)
select pg_advisory_unlock_all()
select pg_stat_reset()
select pg_stat_get_activity(null)
select pg_backend_pid()
select pg_conf_load_time()
select pg_blocking_pids(1)
select pg_input_is_valid('x', 'checked')
select pg_switch_wal() from customer
select txid_current()
select pg_current_xact_id()
select setseed(0.5)
select query_to_xml('delete from customer', true, true, '')
select query_to_xml('select spring(''x'')', true, true, '')
select table_to_xml('secret', true, true, '')
select schema_to_xml('public', true, true, '')
select database_to_xml(true, true, '')
select cursor_to_xml('c', 1, true, true, '')
select query_to_xmlschema('select 1', true, true, '')
select ts_stat('select document from customer')
select * from ts_stat('select spring(''x'')::text::tsvector')
select ts_rewrite('a'::tsquery, 'select ''a''::tsquery, ''b''::tsquery')
select binary_upgrade_set_next_pg_type_oid(1)
select fmgr_sql_validator(1)
select plpgsql_validator(1)
select brin_summarize_new_values('customer_pkey')
select gin_clean_pending_list('customer_pkey')
select currtid2('customer', '(0,1)')
select $1
select :x
select to_jsonb(colour) from paint
select to_json(many) from paint
select array_to_json(many) from paint
select row_to_json(p) from paint p
select json_agg(q) from (select colour from paint) q
select jsonb_agg(colour) from paint
select json_build_object('a', colour) from paint
select jsonb_object_agg(id, colour) from paint
select json_build_array(p) from paint p
select json_object('a': colour) from paint
select json_arrayagg(colour) from paint
select json_array(select colour from paint)
select '[(a),(b)]'::range_of_wrapped
select range_of_wrapped '[(a),(b)]'
select range_of_wrapped(row('a')::wrapped, row('b')::wrapped)
select * from ranked where span = '[(a),(b)]'
select * from ranked where span && '[(a),(b)]'
select * from ranked where value = value
select * from ranked order by value
select max(value) from ranked
select greatest(value, value) from ranked
select distinct row(value, 1) from ranked
select array[value] = array[value] from ranked
select row(value) = row(value) from ranked
select array_position(array[value], value) from ranked
select record_in('(x)', 'holder'::regtype, -1)
select domain_in('x', 'checked'::regtype, -1)
select array_in('{x}', 'checked'::regtype, -1)
select range_in('[(a),(b)]', 'range_of_wrapped'::regtype, -1)
select * from held where one in ('(x)')
select * from held where '(x)' = one
select coalesce(one, '(x)') from held
select case when id = 1 then one else '(x)' end from held
select one from held union all select '(x)'
select array[one, '(x)'] from held
select E'\x28x)'::holder
select U&'!0028x)' uescape '!'::holder
select $a$(x)$a$::holder
select $a$(x)$a$::public."holder"
select public.holder '(x)'
select double '(x)'
select varying '(x)'
select public.extract('(x)')
select "holder" '(x)'
select holder/**/'(x)'
select '('/**/::holder
select interval '1 day', '(x)'::holder
select cast('(x)' as holder)
select nullif('(x)', one) from held
select * from held where one is not distinct from '(x)'
select (values ('(x)'::holder))
select * from jsonb_populate_record('(x)'::holder, '{}')
select row('x')::holder is null
select length(translate(repeat('a',20000000),repeat('b',2000000),''))
select repeat(repeat('a',1000000),1000), repeat(repeat('b',1000000),1000), repeat(repeat('c',1000000),1000)
select length(repeat('x', 1000000000))
select repeat('x', 1000 * 1000 * 1000)
select repeat('x', 1e9::int)
select repeat('x', '1000000000')
select repeat('x', (select 1000000000))
select repeat('x', n) from (values (1000000000)) v (n)
select repeat('x', n) from (select 1000000000 as n offset 0) v
with v as (select 1000000000 as n) select repeat('x', n) from v
with v as (select 1000000000 as n) select (select length(repeat('x', v.n)))  from v
select repeat('x', n) from generate_series(1000000000, 1000000000) n
select repeat(name, 100000000) from customer
select lpad('x', 500000000), rpad(name, 500000000, 'ab') from customer
select array_fill(0, array[30000, 30000])
select array_fill(0, array[9999 + 1, 9999 + 1])
select array_to_string(array_fill(1, array[30000]), repeat('x', 30000))
select format('%900000000s', 'x')
select quote_literal(quote_literal(quote_literal(quote_literal(repeat('''', 200000)))))
select row(x, x, x, x, x, x, x, x)::text as x from (select row(x, x, x, x, x, x, x, x)::text as x from (select row(x, x, x, x, x, x, x, x)::text as x from (select row(x, x, x, x, x, x, x, x)::text as x from (select row(x, x, x, x, x, x, x, x)::text as x from (select row(x, x, x, x, x, x, x, x)::text as x from (select row(x, x, x, x, x, x, x, x)::text as x from (select row(x, x, x, x, x, x, x, x)::text as x from (select 'x' as x) q) q) q) q) q) q) q) q
select format('%*s', 900000000, 'x')
select format('%' || '900000000s', 'x')
select format(repeat('%1$s', 200000), repeat('x', 200000))
select replace('x'::char(10000000), ' ', repeat('x', 90))
select replace(1::bit(80000000)::text, '0', repeat('x', 10))
select replace(repeat('a', 100000), 'a', repeat('b', 100000))
select regexp_replace(repeat('a', 100000), 'a', repeat('b', 100000), 'g')
select repeat('a', 1000000) || repeat('b', 1000000) || name from customer
select coalesce(name, repeat('x', 900000000)) from customer
select repeat('x', greatest(1, 900000000))
select repeat('x', length(repeat('y', 1000000)) * 1000)
select calls_spring('x')
select calls_spring_twice('x')
select * from full_of_spring
select reads_setting()
select sets_role()
select as_owner()
select parses()
select parses_dollars()
select elsewhere()
select two_statements()
select closes()
select count(*) from customer where calls_spring(name) = 1
select prosrc from pg_proc
select * from pg_proc
select p from pg_proc p
select row_to_json(p) from pg_proc p
select (p).prosrc from pg_proc p
select p.* from pg_proc p where proname = 'spring'
select 1 from pg_proc where prosrc like '%secret%'
select pg_get_functiondef('spring'::regproc)
select pg_get_function_sqlbody('name_of'::regproc)
select probin, prosqlbody from pg_proc
select prosrc from (select * from pg_proc) q
select format(E'\x25900000000s', 'x')
select repeat('x', '1000000000'::text::integer)
select pg_input_is_valid('x', E'\x63hecked')
select replace(replace(replace(repeat('a', 1000), 'a', 'aaaaaaaaaaaaaaaaaaaa'), 'a', 'bbbbbbbbbbbbbbbbbbbb'), 'b', 'cccccccccccccccccccc')
