-- Parse the bodies of the functions in SQL and PL/pgSQL: while they were created, what they name was not there yet.
do $$
declare
    _function regprocedure;
    _language name;
begin
    set local check_function_bodies = on;
    for _function, _language in
        select p.oid, l.lanname
          from pg_catalog.pg_proc p join pg_catalog.pg_language l on l.oid = p.prolang
         where l.lanname in ('sql', 'plpgsql') and pg_catalog.pg_has_role(p.proowner, 'usage')
           and p.pronamespace in ('agent'::regnamespace, 'agent_internal'::regnamespace, 'agent_signed'::regnamespace)
    loop
        if _language = 'sql' then
            perform pg_catalog.fmgr_sql_validator(_function);
        else
            perform pg_catalog.plpgsql_validator(_function);
        end if;
    end loop;
end;
$$
