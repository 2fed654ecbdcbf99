-- Attachments, and the columns of their tables by which rows of a gap can be found.
select a.id,
       a.version,
       a.name,
       a.relation::text as relation,
       a.ops,
       a.turns is not null as in_threads,
       c.oid is not null as has_table,
       coalesce(v.definition -> 'key_columns' <> '[]', false) as has_key,
       coalesce((select jsonb_object_agg(f.attname, case when b.oid is null then format_type(t.oid, f.atttypmod)
                                                              else format_type(b.oid, t.typtypmod) end order by f.attnum)
                   from pg_attribute f
                        join pg_type t on t.oid = f.atttypid
                        left join pg_type b on b.oid = nullif(t.typbasetype, 0)
                  where f.attrelid = a.relation and f.attnum > 0 and not f.attisdropped
                    and coalesce(b.oid, t.oid) in ('timestamptz'::regtype, 'timestamp'::regtype, 'date'::regtype)),
                '{}') as columns
  from agent.attachment a
       join agent.attachment_version v on v.attachment_id = a.id and v.version = a.version
       left join pg_class c on c.oid = a.relation
 order by a.name
