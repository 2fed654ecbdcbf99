-- Relations, with what determines whether they may be read: the rule of a view, foreign tables among
-- the partitions.
select c.oid::int8 as oid,
       n.nspname as schema,
       c.relname as name,
       c.relkind::text as kind,
       c.oid::regclass::text as title,
       c.relowner::int8 as owner,
       coalesce((select o.option_value::boolean from pg_options_to_table(c.reloptions) o
                  where o.option_name = 'security_invoker'), false) as invoker,
       (select r.ev_action::text from pg_rewrite r where r.ev_class = c.oid and r.ev_type = '1' and c.relkind = 'v') as rule,
       exists (
           with recursive below (oid) as (
               select i.inhrelid from pg_inherits i where i.inhparent = c.oid
                union
               select i.inhrelid from pg_inherits i join below b on i.inhparent = b.oid)
           select from below join pg_class child using (oid) where child.relkind = 'f') as foreign_parts
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where c.oid = any (%(relations)s::oid[])
