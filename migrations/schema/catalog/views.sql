-- What has a name and an owner, and is used by name: relations, functions, operators and types.
create or replace view agent_internal.named_object with (security_invoker = true) as
    select 'function' as kind, 'pg_proc'::regclass::oid as classid, p.oid, p.pronamespace as schema, p.proname as name, p.proowner as owner from pg_proc p
    union all
    select 'operator', 'pg_operator'::regclass, o.oid, o.oprnamespace, o.oprname, o.oprowner from pg_operator o
    union all
    select 'type', 'pg_type'::regclass, t.oid, t.typnamespace, t.typname, t.typowner from pg_type t
    union all
    select 'relation', 'pg_class'::regclass, c.oid, c.relnamespace, c.relname, c.relowner from pg_class c;
comment on view agent_internal.named_object is 'Relations, functions, operators and types, with their owners';
