-- Publications: what the server sends, and what to do if another role has changed them.

-- Create the publications if they do not exist, and set what they send.
--
-- A table of which only inserts are needed is in `walagent_inserts`: in `walagent`, without a replica identity, it
-- would make UPDATE and DELETE of the application fail.
create or replace function agent_internal.repair_publications()
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _strange record;
begin
    for _strange in select p.pubname, o.rolname
                      from pg_publication p join pg_roles o on o.oid = p.pubowner
                           join pg_namespace n on n.nspname = 'agent_internal'
                     where p.pubname in ('walagent', 'walagent_inserts') and p.pubowner <> n.nspowner and not o.rolsuper loop
        raise exception 'publication "%" belongs to role "%"', _strange.pubname, _strange.rolname using errcode = '42501',
            hint = format('As the owner of walagent''s schema or a superuser, run drop publication %I.', _strange.pubname);
    end loop;
    if not exists (select from pg_publication where pubname = 'walagent') then
        create publication walagent;
    end if;
    if not exists (select from pg_publication where pubname = 'walagent_inserts') then
        create publication walagent_inserts;
    end if;
    alter publication walagent set (publish = 'insert, update, delete, truncate', publish_via_partition_root = true);
    alter publication walagent_inserts set (publish = 'insert', publish_via_partition_root = true);
    if current_setting('server_version_num')::integer >= 180000 then
        execute 'alter publication walagent set (publish_generated_columns = stored)';
        execute 'alter publication walagent_inserts set (publish_generated_columns = stored)';
    end if;
    -- The only published table of walagent: the reader receives an attachment at the position of its transaction
    -- among the others.
    if not exists (select from pg_publication_rel r join pg_publication p on p.oid = r.prpubid
                    where p.pubname = 'walagent' and r.prrelid = 'agent.attachment'::regclass) then
        alter publication walagent add table agent.attachment;
    end if;
end;
$$;

-- Record how a table is published now, unless another role had published it.
--
-- Args: _was: its entry before the alteration; NULL: none.  _settled: see agent_internal.published.
create or replace function agent_internal.record_published(_relation regclass, _was oid, _settled boolean)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    insert into agent_internal.published as noted (relation, publication, entry, settled)
    select r.prrelid, p.pubname, r.oid, _settled
      from pg_publication_rel r join pg_publication p on p.oid = r.prpubid
     where r.prrelid = _relation and p.pubname in ('walagent', 'walagent_inserts')
    on conflict (relation) do update
       set publication = excluded.publication, entry = excluded.entry, settled = excluded.settled
     where noted.entry = _was;
end;
$$;

-- Request for intake what the attachments of a relation need, or nothing if there are none.
create or replace function agent_internal.request_for_attachments(_relation regclass)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    -- Locks the row: who changes another attachment of the table waits here, and then sees this one.
    insert into agent_internal.requested_table as t (requester, relation, inserts_only)
    values ('intake', _relation, true)
    on conflict (requester, relation) do update set inserts_only = t.inserts_only;
    update agent_internal.requested_table t
       set inserts_only = x.inserts_only, row_filter = x.row_filter
      from (select bool_and(ops = '{insert}' and not corrections) as inserts_only,
                   -- A filter must pass what any attachment needs, and a backfill needs every row.
                   case when bool_and(server_filter and not backfill)
                        then string_agg(distinct format('(%s)', definition ->> 'row_filter'), ' or ') end as row_filter
              from agent.attachment where relation = _relation
            having count(*) > 0) x
     where t.requester = 'intake' and t.relation = _relation;
    if not found then
        delete from agent_internal.requested_table where requester = 'intake' and relation = _relation;
    end if;
exception when lock_not_available then
    raise exception 'another transaction has been changing an attachment of % for %', _relation, current_setting('lock_timeout')
        using errcode = '55P03', hint = 'select pid, xact_start, query from pg_stat_activity where xact_start is not null order by 2';
end;
$$;

-- The publications that do not send what they must, or did not for a time, one message each.
create or replace function agent_internal.publication_trouble()
    returns setof text
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select distinct
           case when p.oid is null then format('publication %I does not exist', n.publication)
                when r.oid is null then format('%s was removed from publication %I', n.relation, n.publication)
                else format('publication %I was altered and does not send what walagent requires', n.publication) end
      from agent_internal.published n
           join pg_class c on c.oid = n.relation
           left join pg_publication p on p.pubname = n.publication
           left join pg_publication_rel r on r.oid = n.entry and r.prpubid = p.oid
     where (r.oid is null
            or not (p.pubinsert and p.pubviaroot)
            or to_jsonb(p) ->> 'pubgencols' <> 's'  -- from version 18 on
            or p.pubname = 'walagent' and not (p.pubupdate and p.pubdelete and p.pubtruncate))
       and (n.relation = 'agent.attachment'::regclass
            or exists (select from agent_internal.requested_table t where t.relation = n.relation and t.durable))
     order by 1
$$;
comment on function agent_internal.publication_trouble() is 'Unexpected changes to the publications';

-- Add all attached tables to the publications again, for a new slot.  What was not sent until then is lost; the
-- caller records that.
create or replace function agent_internal.republish()
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _relation regclass;
begin
    perform agent_internal.repair_publications();
    delete from agent_internal.published;
    perform agent_internal.record_published('agent.attachment', null, true);
    delete from agent_internal.requested_table where requester = 'intake';
    for _relation in
        select distinct a.relation from agent.attachment a join pg_class c on c.oid = a.relation
    loop
        perform agent_internal.request_for_attachments(_relation);
    end loop;
    for _relation in
        select distinct t.relation from agent_internal.requested_table t join pg_class c on c.oid = t.relation
    loop
        -- The new slot begins when all transactions that are open now have ended.
        perform agent_internal.publish_relation(_relation, _exact => false);
        perform agent_internal.record_published(_relation, null, true);
    end loop;
end;
$$;
comment on function agent_internal.republish() is 'Repair the publications';

-- Request tables for the sinks of a slot's reader, in place of those that it requested before.
--
-- Executed with the owner's rights, for the reader's login: a login with REPLICATION can read all WAL
-- anyway.  It must not make the application's own UPDATE and DELETE fail, so a table whose updates are
-- requested must have a replica identity.
create or replace function agent_internal.request_tables(
    _slot text, _schemas text[], _tables text[], _inserts_only boolean[], _durable boolean[])
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '2s'
as $$
declare
    _requester constant text := 'slot ' || _slot;
    _refused   text;
    _changed   regclass[];
    _relation  regclass;
begin
    select string_agg(relation::text, ', ' order by relation::text) into _refused
      from agent_internal.tables_named(_schemas, _tables, _inserts_only, _durable)
     where not inserts_only and agent_internal.identity_columns(relation) = '{}';
    if _refused is not null then
        raise exception 'cannot publish updates of % without a replica identity', _refused
            using errcode = '55000', hint = 'Add a primary key, or request inserts only.';
    end if;
    with requested as (
        select * from agent_internal.tables_named(_schemas, _tables, _inserts_only, _durable)
    ), removed as (
        delete from agent_internal.requested_table t
         where t.requester = _requester and t.relation not in (select relation from requested)
        returning t.relation
    ), changed as (
        insert into agent_internal.requested_table as t (requester, relation, inserts_only, durable)
        select _requester, relation, inserts_only, durable from requested
        on conflict (requester, relation) do update
           set inserts_only = excluded.inserts_only, durable = excluded.durable
         where (t.inserts_only, t.durable) is distinct from (excluded.inserts_only, excluded.durable)
        returning t.relation
    )
    select array(select relation from removed union select relation from changed order by 1) into _changed;
    foreach _relation in array _changed loop
        perform agent_internal.publish_relation(_relation, _exact => exists (
            select from agent_internal.requested_table t where t.relation = _relation and t.requester = _requester and t.durable));
    end loop;
end;
$$;
comment on function agent_internal.request_tables(text, text[], text[], boolean[], boolean[]) is 'Request tables for the sinks of a reader';

-- Add the relation to the publication that its requests need, or remove it.  Updates are not published if they would
-- fail, whatever is requested.
--
-- Executed with the owner's rights.
--
-- Args: _exact: whether the table is locked, until the transaction ends, when no transaction is writing to it.  So each of them has
--               either committed before an attach, or writes after it, and "what commits later starts runs" is exact.  False: who
--               asks waits itself, after the commit, for those that wrote before; no writer notices.
create or replace function agent_internal.publish_relation(_relation regclass, _exact boolean default true)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set datestyle = 'ISO, MDY'
    set intervalstyle = 'postgres'
as $$
declare
    _wanted  text;
    _filter  text;
    _now     record;
    _settled boolean;
begin
    if not exists (select from pg_class where oid = _relation) then
        return;  -- dropped meanwhile, and with it its entry
    end if;
    select case when bool_or(not inserts_only) then 'walagent'
                when count(*) > 0 then 'walagent_inserts' end,
           -- A filter must pass what any of them needs.
           case when bool_and(row_filter is not null)
                then string_agg(distinct format('(%s)', row_filter), ' or ') end
      into _wanted, _filter
      from agent_internal.requested_table where relation = _relation;
    if _wanted = 'walagent' and agent_internal.identity_problem(_relation) is not null then
        _wanted := 'walagent_inserts';
    end if;
    if _wanted = 'walagent' then
        _filter := null;  -- a filter would turn updates that cross it into inserts and deletes
    end if;
    select p.pubname as name, r.oid as entry, r.prqual is not null as filtered
      into _now
      from pg_publication_rel r join pg_publication p on p.oid = r.prpubid
     where r.prrelid = _relation and p.pubname in ('walagent', 'walagent_inserts');
    if _wanted is null then
        delete from agent_internal.published where relation = _relation;
    end if;
    _settled := _now.entry is not null
                and (select p.settled from agent_internal.published p where p.relation = _relation and p.entry = _now.entry);
    if _wanted is not distinct from _now.name and _filter is null and not coalesce(_now.filtered, false) then
        if _wanted is not null and _exact and not coalesce(_settled, false) then
            perform agent_internal.lock_writers(_relation);
            update agent_internal.published set settled = true where relation = _relation;
        end if;
        return;
    end if;
    if _wanted is not null and _exact then
        perform agent_internal.lock_writers(_relation);
    end if;
    -- Inserts, of which updates were sent as well, are sent as before.
    _settled := _exact or coalesce(_settled, false) and _wanted = 'walagent_inserts';
    if _now.name is not null then
        execute format('alter publication %I drop table only %s', _now.name, _relation);
    end if;
    if _wanted is not null then
        begin
            execute format('alter publication %I add table only %s', _wanted, _relation)
                    || coalesce(' where (' || _filter || ')', '');
        exception when feature_not_supported or invalid_object_definition or wrong_object_type then
            -- PostgreSQL accepts fewer expressions as a filter; the condition is evaluated later anyway.
            execute format('alter publication %I add table only %s', _wanted, _relation);
        end;
        if not exists (select from pg_publication_rel r join pg_publication p on p.oid = r.prpubid
                        where p.pubname = _wanted and r.prrelid = _relation) then
            raise exception 'another table was given the name of % meanwhile', _relation using errcode = 'WA013', hint = 'Try again.';
        end if;
    end if;
    perform agent_internal.record_published(_relation, _now.entry, _settled);
exception
    when insufficient_privilege then
        raise exception 'role "%", the owner of the publications, must be the owner of % to publish it', current_user, _relation
            using errcode = '42501',
                  hint = format('grant %I to %I', (select pg_get_userbyid(relowner) from pg_class where oid = _relation), current_user);
end;
$$;

-- Lock a table when nobody is writing to it.  A lock that waits would make all later writers wait, so this one never does: it
-- is tried again until lock_timeout, or for 10 seconds.
--
-- Raises 55P03.
create or replace function agent_internal.lock_writers(_relation regclass)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _most  constant interval := interval '10 s';
    _until constant timestamptz := clock_timestamp()
                                   + least(_most, coalesce(nullif(current_setting('lock_timeout')::interval, interval '0'), _most));
begin
    loop
        begin
            execute format('lock table only %s in share mode nowait', _relation);
            return;
        exception when lock_not_available then
            if clock_timestamp() > _until then
                raise exception 'transactions are writing to % all the time', _relation
                    using errcode = '55P03', hint = format(
                        'select l.pid, a.xact_start, a.query from pg_locks l left join pg_stat_activity a using (pid)'
                        ' where l.relation = %L::regclass and l.mode like ''%%Exclusive%%'' order by 2', _relation);
            end if;
        end;
        perform pg_sleep(0.002 + random() * 0.02);
    end loop;
end;
$$;

-- Tables of walagent can be requested, too: shapes of queries follow them.  agent.attachment is always published.
create or replace function agent_internal.tables_named(_schemas text[], _tables text[], _inserts_only boolean[], _durable boolean[])
    returns table (relation regclass, inserts_only boolean, durable boolean)
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select c.oid::regclass, bool_and(w.inserts_only), bool_or(w.durable)
      from unnest(_schemas, _tables, _inserts_only, _durable) as w (schema, name, inserts_only, durable)
           join pg_namespace n on n.nspname = w.schema
           join pg_class c on c.relnamespace = n.oid and c.relname = w.name
     where c.relkind in ('r', 'p') and c.relpersistence = 'p'
       and n.nspname !~ '^(pg_.*|information_schema|agent_internal)$'
       and c.oid <> 'agent.attachment'::regclass
     group by c.oid
$$;
