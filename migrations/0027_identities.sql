-- Replica identities: what makes UPDATE and DELETE of the application fail, once they are published, and is prevented.
--
-- PostgreSQL rejects an UPDATE or DELETE of a published table whose old row cannot be identified.  A table can come into
-- this state after it was attached.  The application never waits for walagent's operator: the updates are no longer
-- published, and the attachments that need them are paused, with the reason.

-- Why UPDATE and DELETE of a table fail if they are published; NULL: they do not.  The identity is that of each partition.
create function agent_internal.identity_problem(_relation regclass)
    returns text
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select case when c.relreplident = 'f'
                then format('%s has replica identity full and virtual generated column "%s"', c.oid::regclass, g.attname)
                else format('%s has no replica identity', c.oid::regclass) end
      from (select relid from pg_partition_tree(_relation) where isleaf
            union select _relation) t
           join pg_class c on c.oid = t.relid and c.relkind = 'r'
           left join pg_attribute g on c.relreplident = 'f' and g.attrelid = c.oid and g.attgenerated = 'v' and not g.attisdropped
     where g.attname is not null or agent_internal.identity_columns(c.oid) = '{}'
     order by c.oid
     limit 1
$$;
comment on function agent_internal.identity_problem(regclass) is 'Why UPDATE and DELETE of a table fail if they are published';

create or replace function agent_internal.identity_drift(_relation regclass, _definition jsonb)
    returns text
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select coalesce(
        (select format('%s; its updates and deletes are not published', p.problem)
           from agent_internal.identity_problem(_relation) as p (problem)
          where _definition -> 'ops' <> '["insert"]' and p.problem is not null),
        (select case k.now when '{}' then format('%s no longer has a primary key; it was (%s)', _relation, array_to_string(k.was, ', '))
                     else format('the primary key of %s is now (%s); it was (%s)', _relation, array_to_string(k.now, ', '),
                                 array_to_string(k.was, ', ')) end
           from (select agent_internal.key_columns(_relation), array(select jsonb_array_elements_text(_definition -> 'key_columns'))) as k (now, was)
          where k.now <> k.was),
        (select format('the replica identity of %s does not include column "%s", which the condition reads from old', _relation, o)
           from jsonb_array_elements_text(_definition -> 'old_columns') o
          where o <> all (agent_internal.identity_columns(_relation))
          limit 1),
        (select format('the replica identity of %s does not include column "%s", which names the tenant of deleted rows', _relation, t)
           from (select _definition ->> 'tenant_column') as d (t)
          where _definition -> 'ops' ? 'delete' and t <> all (agent_internal.identity_columns(_relation))))
$$;
-- Add the relation to the publication that its requests need, or remove it.  Updates are not published if they would
-- fail, whatever is requested.
--
-- Executed with the owner's rights.  Adding a table acquires a SHARE lock on it until the transaction
-- ends: it waits for transactions that are writing to the table.  So each of them has either committed
-- before an attach, or writes after it, and "what commits later starts runs" is exact.
create or replace function agent_internal.publish_relation(_relation regclass)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set datestyle = 'ISO, MDY'
    set intervalstyle = 'postgres'
as $$
declare
    _wanted text;
    _filter text;
    _now    record;
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
    if _wanted is not distinct from _now.name and _filter is null and not coalesce(_now.filtered, false) then
        return;
    end if;
    if _wanted is not null then
        execute format('lock table only %s in share mode', _relation);
    end if;
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
    end if;
    perform agent_internal.record_published(_relation, _now.entry);
exception
    when lock_not_available then
        raise exception 'could not lock % within 10 s: transactions are writing to it', _relation
            using errcode = '55P03', hint = 'select pid, xact_start, query from pg_stat_activity where xact_start is not null order by 2';
    when insufficient_privilege then
        raise exception 'role "%", the owner of the publications, must be the owner of % to publish it', current_user, _relation
            using errcode = '42501',
                  hint = format('grant %I to %I', (select pg_get_userbyid(relowner) from pg_class where oid = _relation), current_user);
end;
$$;

-- Publish only the inserts of tables whose updates would fail, and pause the attachments that need the updates.  Called
-- by the reader every few seconds.  Resuming an attachment publishes the updates again.
--
-- Waits for no lock for long: a table that is locked is altered at the next call.  Takes none that statements of the
-- application wait for.
create function agent_internal.check_identities()
    returns table (relation text, problem text)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '500ms'
as $$
declare
    _found record;
begin
    for _found in
        select r.prrelid::regclass as relation, r.oid as entry, p.problem
          from pg_publication_rel r join pg_publication b on b.oid = r.prpubid
               cross join lateral agent_internal.identity_problem(r.prrelid) as p (problem)
         where b.pubname = 'walagent' and p.problem is not null
    loop
        begin
            execute format('alter publication walagent drop table only %s', _found.relation);
            begin
                execute format('alter publication walagent_inserts add table only %s', _found.relation);
                perform agent_internal.record_published(_found.relation, _found.entry);
            exception when insufficient_privilege then
                null;  -- the table has another owner now: no change is sent, which is a gap
            end;
            relation := _found.relation;
            problem := _found.problem;
            return next;
        exception when lock_not_available or deadlock_detected or undefined_table then
            null;
        end;
    end loop;
    for _found in
        select a.id, a.relation, agent_internal.identity_problem(a.relation) as problem
          from agent.attachment a
         where not a.paused and a.ops <> '{insert}'
           and exists (select from pg_publication_rel r join pg_publication b on b.oid = r.prpubid
                        where b.pubname = 'walagent_inserts' and r.prrelid = a.relation)
         order by a.id
    loop
        perform agent_internal.pause_broken(_found.id, format('%s: its updates and deletes are not published until walagent resume',
                                                              coalesce(_found.problem, format('%s had no replica identity', _found.relation))));
    end loop;
end;
$$;
comment on function agent_internal.check_identities() is 'Publish no updates that would fail, pause the attachments that need them, and return the tables';

-- Store the new version and update the publication, with the rights of the schema's owner.  No other role may execute
-- this function, so it cannot be a trigger of another table.  In a trial the table is not published: that locks it, and
-- the transaction lasts as long as a model takes.
create or replace function agent_internal.freeze_attachment()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '10s'
as $$
declare
    _lost text;
begin
    if tg_op = 'INSERT' or new.version <> old.version then
        insert into agent.attachment_version (attachment_id, version, definition)
        values (new.id, new.version, new.definition);
    end if;
    if tg_op = 'INSERT' and new.backfill then
        insert into agent.backfill (attachment_id, version) values (new.id, new.version);
    end if;
    if tg_op = 'UPDATE' and (new.version <> old.version or old.paused and not new.paused) then
        perform agent_internal.repin_runs(new.id, new.version);
    end if;
    -- Not to pause: that must not wait for a lock.  A resumed one can need updates that are not published: see
    -- agent_internal.check_identities().
    if not exists (select from agent_internal.trial)
       and (tg_op = 'INSERT' or new.version <> old.version or old.paused and not new.paused) then
        perform agent_internal.request_for_attachments(new.relation);
        perform agent_internal.publish_relation(new.relation);
    end if;
    if tg_op = 'UPDATE' and old.relation <> new.relation then
        perform agent_internal.request_for_attachments(old.relation);
        perform agent_internal.publish_relation(old.relation);
    end if;
    if not new.paused and (tg_op = 'INSERT' or new.version <> old.version or old.paused) then
        _lost := agent_internal.drift_of(new.definition);
        if _lost is not null then
            raise exception '%', _lost using errcode = 'WA013';
        end if;
    end if;
    return null;
end;
$$;
revoke all on function agent_internal.identity_problem(regclass), agent_internal.check_identities() from public;

-- Roles that were granted before need what is new.
do $$
declare
    _role regrole;
begin
    for _role in select a.grantee from pg_catalog.pg_proc p, pg_catalog.aclexplode(p.proacl) a
                  where p.oid = 'agent_internal.tick()'::regprocedure and a.grantee not in (p.proowner, 0) loop
        execute format('grant execute on function agent_internal.identity_problem(regclass), agent_internal.check_identities() to %s', _role);
    end loop;
end;
$$;
