-- A text that changes when the description of what the current role can read would change: after DDL,
-- comments, grants, new values of an enum, new policies.
--
-- It compares no content, only the rows of the catalog and the transaction that wrote each (xmin), so
-- a thousand tables take milliseconds.  Changes by ANALYZE, VACUUM and statistics do not count, except
-- for the order of magnitude of a table's rows: a table that was filled is described again.
-- It can change needlessly, after TRUNCATE or VACUUM FULL, but never stays equal after a change.
with shown as materialized (
    select c.oid, c.xmin as written, c.relkind, c.reltuples
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where c.relkind in ('r', 'p', 'v', 'm', 'f')
       and not c.relispartition
       and n.nspname not in ('pg_catalog', 'information_schema', 'agent', 'agent_internal') and n.nspname not like 'pg\_%%'
       and (%(schemas)s::text[] is null or n.nspname = any (%(schemas)s::text[]))
), parts (name, line) as (
    select 'relation', concat_ws(':', oid, written, case when relkind in ('r', 'm') and reltuples >= 0
                                                         then floor(log(greatest(reltuples, 1)))::text else '-' end)
      from shown
    union all
    select 'column', concat_ws(':', a.attrelid, a.attnum, a.xmin) from pg_attribute a join shown s on s.oid = a.attrelid where a.attnum > 0
    union all
    select 'constraint', concat_ws(':', k.oid, k.xmin)
      from pg_constraint k where k.contypid <> 0 or k.conrelid in (select oid from shown)
    union all
    select 'index', concat_ws(':', i.indexrelid, i.xmin) from pg_index i join shown s on s.oid = i.indrelid
    union all
    select 'comment', concat_ws(':', d.objoid, d.objsubid, d.xmin)
      from pg_description d join shown s on s.oid = d.objoid where d.classoid = 'pg_class'::regclass
    union all
    select 'rule', concat_ws(':', r.oid, r.xmin) from pg_rewrite r join shown s on s.oid = r.ev_class
    union all
    select 'policy', concat_ws(':', p.oid, p.xmin) from pg_policy p join shown s on s.oid = p.polrelid
    union all
    select 'enum', concat_ws(':', e.oid, e.xmin) from pg_enum e
    union all
    select 'domain', concat_ws(':', t.oid, t.xmin) from pg_type t where t.typtype = 'd'
    union all
    select 'schema', concat_ws(':', n.oid, n.xmin) from pg_namespace n where n.nspname not like 'pg\_%%'
    union all
    select 'membership', concat_ws(':', m.roleid, m.member, m.xmin) from pg_auth_members m
)
select current_user::text,
       md5(string_agg(concat_ws(':', name, lines, sum), ',' order by name))
  from (select name, count(*) as lines, bit_xor(hashtextextended(line, 0)) as sum from parts group by name) by_name
