-- The tables that walagent has added to its publications, with their entries.  If another role removes a table or
-- drops a publication, changes are missing; adding it again creates a new entry, so that the loss is detected as long
-- as this table has the old one.
--
-- settled: no transaction wrote to the table before it was published and is still open, so all that commits is sent.
create table agent_internal.published (
    relation    regclass primary key,
    publication name not null,
    entry       oid not null,
    settled     boolean not null
);

-- Which tables are to be sent, and to whom: a publication is the union of what is requested.  Attaching
-- requests for intake, in its own transaction; a reader requests for the other sinks of its slot.
create table agent_internal.requested_table (
    requester    text not null,
    relation     regclass not null,
    inserts_only boolean not null,
    row_filter   text,
    durable      boolean not null default true,
    primary key (requester, relation)
);

create publication walagent;

create publication walagent_inserts;
