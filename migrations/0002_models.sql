-- placeholder until the registry is written
select 1;
