-- What is said of code that acts as the role of an attachment.

-- Name roles that can act as an attachment's run_as, though neither the table is theirs nor the role.
create or replace function agent_internal.warn_of_code(_relation regclass, _run_as name)
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
    set standard_conforming_strings = on
as $$
declare
    _code record;
begin
    if not agent_internal.has_strangers(array[_relation::oid]) then
        return;
    end if;
    for _code in
        select c.owner, min(c.function) as function, min(c.place) as place, min(c.relation) as relation
          from agent_internal.code_of(array[_relation::oid]) c
         where not c.trusted and not c.owns_relation and c.owner <> _run_as
         group by c.owner
    loop
        raise warning 'code of role "%" acts as "%": function % (% of %)',
            _code.owner, _run_as, _code.function, _code.place, _code.relation
            using hint = format('Its owner can change what it does: see it with \sf %s, or give it to the table''s owner.',
                                _code.function);
    end loop;
end;
$$;
