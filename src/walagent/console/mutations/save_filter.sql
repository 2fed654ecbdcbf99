-- parameters: name, query
-- Keep a filter of the list of runs, for all who see the runs; an own filter of this name is replaced.
insert into agent.saved_filter (name, query) values (%(name)s, %(query)s)
    on conflict (tenant, name) do update set query = excluded.query, saved_at = excluded.saved_at
returning name
