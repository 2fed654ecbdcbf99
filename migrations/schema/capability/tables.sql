-- What each capability may do: `grant PRIVILEGE on KIND OBJECT`.  The files called grants.sql write it.
create table agent_internal.privilege (
    kind         text not null check (kind in ('schema', 'table', 'sequence', 'function')),
    object       text not null,
    privilege    text not null,
    capabilities text[] not null check (capabilities <@ '{runner,viewer,approver,developer,asker,member}'),
    primary key (kind, object, privilege)
);

-- Functions that keep the rights of the owner of the schema, and check tenants themselves.
create table agent_internal.owner_function (
    function regprocedure primary key
);

-- Who was given a capability.  An upgrade gives what is new to those that have it still: agent_internal.present_holders().
create table agent_internal.holder (
    capability text not null check (capability in ('runner', 'viewer', 'approver', 'developer', 'asker', 'member')),
    role       name not null,
    primary key (capability, role)
);
