-- For a CHECK: true, or an error.  A webhook leads to a host by its name, or by an address as everybody reads it, and never
-- to a link-local one, where clouds serve the keys of a machine.  What a name leads to is checked by the process that connects.
create or replace function agent_internal.leads_to_host(_url text)
    returns boolean
    language plpgsql
    immutable
    set search_path = pg_catalog, pg_temp
    set standard_conforming_strings = on
as $$
declare
    _host constant text := lower(substring(_url from '^[Hh][Tt][Tt][Pp][Ss]?://(\[[^]]*\]|[^/:?#]*)'));
    _why text;
begin
    if _host ~ '^\[' then
        begin
            _why := case
                when trim('[]' from _host)::inet <<= any ('{::/96,::ffff:0:0/96,64:ff9b::/96,2002::/16}') and _host <> '[::1]' then 'holds an address of IPv4'
                when trim('[]' from _host)::inet <<= 'fe80::/10' then 'is link-local' end;
        exception when invalid_text_representation then
            _why := 'is not an address of IPv6';
        end;
    elsif _host ~ '^((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])[.]){3}(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])$' then
        _why := case when _host::inet <<= '169.254.0.0/16' then 'is link-local' end;
    elsif _host ~ '^(0x[0-9a-f]*|[0-9]+)([.](0x[0-9a-f]*|[0-9]*))*$' then
        _why := 'is an address in another form than 192.0.2.1';
    elsif _host !~ '^[a-z0-9_-]+([.][a-z0-9_-]+)*[.]?$' then
        _why := 'is not a name of a host';
    end if;
    if _why is not null then
        raise exception 'the host "%" of a webhook %', _host, _why
            using errcode = 'WA023', hint = 'Name the host, such as ops.acme.test; other letters than a-z as xn--.';
    end if;
    return true;
end;
$$;
comment on function agent_internal.leads_to_host(text) is 'Whether a URL leads to a host that a webhook may name; raises otherwise';
