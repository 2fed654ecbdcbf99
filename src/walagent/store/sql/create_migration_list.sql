-- The applied migrations.
do $$
begin
    if to_regclass('agent_internal.migration') is null then
        create table agent_internal.migration (
            name       text primary key,
            sha256     text not null,
            applied_at timestamptz not null default now()
        );
        comment on table agent_internal.migration is 'Which migrations are applied, with the digest of each file';
    end if;
end;
$$
