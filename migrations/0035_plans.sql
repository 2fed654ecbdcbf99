-- Plans that hold when the tables grow.
--
-- A worker's connection keeps its plans until the next ANALYZE.  If a table was known to be empty when they were
-- made, after an ANALYZE or after retention, reading all of it was as cheap as reading its index: a thousand runs
-- later each claim would read all steps.
do $$
declare
    _function regprocedure;
begin
    for _function in
        select oid from pg_proc
         where pronamespace = 'agent_internal'::regnamespace
           and proname in ('claim_runs', 'ingest', 'insert_runs', 'record_many', 'record_step', 'finish_run')
    loop
        execute format('alter function %s set enable_seqscan = off', _function);
    end loop;
end;
$$;
