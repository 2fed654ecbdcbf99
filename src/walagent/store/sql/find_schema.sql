-- Whether our schema is there, and whether it remembers its migrations.
select to_regnamespace('agent') is not null,
       to_regclass('agent.migration') is not null
