-- Triggers and policies are replaced under a lock that conflicts with everything; all are taken before anything is changed.
do $$
begin
    execute (
        select 'lock table ' || string_agg(c.oid::regclass::text, ', ' order by c.oid)
          from pg_catalog.pg_class c
         where c.relkind = 'r'
           and c.relnamespace in ('agent'::regnamespace, 'agent_internal'::regnamespace));
end;
$$
