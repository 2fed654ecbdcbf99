-- Replica identities: what makes UPDATE and DELETE of the application fail, once they are published, and is prevented.
--
-- PostgreSQL rejects an UPDATE or DELETE of a published table whose old row cannot be identified.  A table can come into
-- this state after it was attached.  The application never waits for walagent's operator: the updates are no longer
-- published, and the attachments that need them are paused, with the reason.

-- Why UPDATE and DELETE of a table fail if they are published; NULL: they do not.  The identity is that of each partition.
create or replace function agent_internal.identity_problem(_relation regclass)
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

-- Publish only the inserts of tables whose updates would fail, and pause the attachments that need the updates.  Called
-- by the reader every few seconds.  Resuming an attachment publishes the updates again.
--
-- Waits for no lock for long: a table that is locked is altered at the next call.  Takes none that statements of the
-- application wait for.
create or replace function agent_internal.check_identities()
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
            -- Who resumes an attachment waits here, and then publishes the updates again.
            perform from agent_internal.requested_table t where t.relation = _found.relation for update nowait;
            execute format('alter publication walagent drop table only %s', _found.relation);
            if agent_internal.identity_problem(_found.relation) is null then
                raise lock_not_available;  -- it has an identity since: undo
            end if;
            begin
                execute format('alter publication walagent_inserts add table only %s', _found.relation);
                perform agent_internal.record_published(  -- inserts are sent as before
                    _found.relation, _found.entry,
                    coalesce((select p.settled from agent_internal.published p where p.relation = _found.relation), false));
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
         where not a.paused and (a.ops <> '{insert}' or a.corrections)
           and exists (select from pg_publication_rel r join pg_publication b on b.oid = r.prpubid
                        where b.pubname = 'walagent_inserts' and r.prrelid = a.relation)
         order by a.id
    loop
        perform agent_internal.pause_broken(_found.id, format('%s: its updates and deletes are not published until walagent agents resume',
                                                              coalesce(_found.problem, format('%s had no replica identity', _found.relation))));
    end loop;
end;
$$;
comment on function agent_internal.check_identities() is 'Publish no updates that would fail, pause the attachments that need them, and return the tables';
