-- Functions of event triggers that fire when a statement is analyzed, with the rights of its role.
select p.oid::regprocedure::text
  from pg_event_trigger t join pg_proc p on p.oid = t.evtfoid
 where t.evtenabled <> 'D' and t.evtevent in ('ddl_command_start', 'ddl_command_end')
   and (t.evttags is null or 'CREATE VIEW' = any (t.evttags)) and not p.prosecdef
 order by t.evtname
