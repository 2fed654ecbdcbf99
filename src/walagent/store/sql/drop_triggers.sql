-- The triggers of the schema, which cannot all be replaced in place.  Triggers that call functions of others stay.
do $$
declare
    _statement text;
begin
    for _statement in
        select format('drop trigger %I on %s', t.tgname, t.tgrelid::regclass)
          from pg_catalog.pg_trigger t
               join pg_catalog.pg_class c on c.oid = t.tgrelid
               join pg_catalog.pg_proc p on p.oid = t.tgfoid
         where not t.tgisinternal
           and c.relnamespace in ('agent'::regnamespace, 'agent_internal'::regnamespace)
           and p.pronamespace in ('agent'::regnamespace, 'agent_internal'::regnamespace)
    loop
        execute _statement;
    end loop;
end;
$$
