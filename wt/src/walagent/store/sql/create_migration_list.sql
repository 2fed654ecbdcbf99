-- What the migrator has applied.
do $$
begin
    if to_regclass('agent.migration') is null then
        create table agent.migration (
            name       text primary key,
            sha256     text not null,
            applied_at timestamptz not null default now()
        );
        comment on table agent.migration is 'Which migrations are applied, with the digest of each file';
    end if;
end;
$$
