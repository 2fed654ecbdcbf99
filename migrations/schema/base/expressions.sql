-- The only clock: of leases, backoff and expiry.  It is a function so that a test can replace it.  It returns the
-- start of the statement, not of the transaction: a claim that waited for a lock must not grant a lease that has
-- already aged.
create or replace function agent_internal.now()
    returns timestamptz
    language sql
    stable
return statement_timestamp();
comment on function agent_internal.now() is 'The clock of leases, retries and expiry';

-- For CHECK constraints: true, or an error that names the column and says where keys belong.
create or replace function agent_internal.no_key(_text text, _column text)
    returns boolean
    language plpgsql
    immutable
    set search_path = pg_catalog, pg_temp
as $$
begin
    if agent_internal.has_key(_text) then
        raise exception 'column "%" holds what looks like a key or token', _column
            using errcode = '23514',
                  detail = 'Keys are never kept in the database.',
                  hint = 'Set an environment variable or systemd credential of the worker, and store its name: credential of a model, {secret:NAME} in a tool over HTTP.';
    end if;
    return true;
end;
$$;
comment on function agent_internal.no_key(text, text) is 'Whether a text holds no key; raises otherwise, naming the column';
