-- The attachments of a table, with what determines whether a change starts a run; also those of a
-- dropped table of the same name.
select v.definition,
       a.name,
       a.paused,
       a.paused_reason,
       a.attached_at,
       v.active_from is not null as active,
       b.state as backfill,
       agent_internal.drift_of(a.definition) as lost
  from agent.attachment a
       join agent.attachment_version v on v.attachment_id = a.id and v.version = a.version
       left join lateral (select * from agent.backfill l where l.attachment_id = a.id
                           order by l.generation desc limit 1) b on true
 where a.relation = %(relation)s
    or not exists (select from pg_catalog.pg_class where oid = a.relation)
       and (a.definition ->> 'schema', a.definition ->> 'table')
           = (select n.nspname, c.relname
                from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
               where c.oid = %(relation)s)
 order by a.name
