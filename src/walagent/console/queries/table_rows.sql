-- key: key
-- parameters: relation, key
-- Rows of a table as runs saw them last, with their runs; of the newest 2,000 runs, or of one key.
-- Only columns that the caller's own login can read.  Names change: the table is the attachment's, not what a change names.
with readable as (
    select c.oid,
-- include: _table_refusal
           array(select t.attname::text from pg_catalog.pg_attribute t
                  where t.attrelid = c.oid and t.attnum > 0 and not t.attisdropped
                    and has_column_privilege(l.oid, c.oid, t.attnum, 'select')) as columns
      from pg_catalog.pg_class c
           join pg_catalog.pg_namespace n on n.oid = c.relnamespace
           cross join agent_internal.asking('') x
           join pg_catalog.pg_roles l on l.rolname = x.login
     where n.nspname || '.' || c.relname = %(relation)s),
newest as (
    select r.id, r.key, r.state, r.change ->> 'op' as op,
           coalesce(nullif(r.change -> 'new', 'null'), nullif(r.change -> 'old', 'null')) as content,
           coalesce(r.committed_at, r.created_at) as at
      from readable t
           join agent.attachment a on a.relation = t.oid
           join agent.run r on r.attachment_id = a.id
     where t.refusal is null
       and (%(key)s = '' or r.key = %(key)s)
     order by r.id desc limit 2000),
rows as (
    select coalesce(n.key, '') as key, max(n.id) as id, max(n.at) as at,
           (array_agg(n.content order by n.id desc))[1] as content,
           (array_agg(n.op order by n.id desc))[1] as op,
           jsonb_agg(jsonb_build_object('id', n.id::text, 'state', n.state) order by n.id) as runs
      from newest n
     group by 1
     order by 2 desc
     limit 200)
select r.key, r.id, r.at, r.op, r.runs,
       (select jsonb_object_agg(e.key, e.value) from jsonb_each(r.content) e where e.key = any (t.columns)) as content
  from rows r
       cross join readable t
 order by r.id desc
