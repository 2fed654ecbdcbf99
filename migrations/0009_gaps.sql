-- What becomes of lost WAL: publications that somebody else altered, and slots that are given up.

-- Which tables walagent has put into its publications, and as which entries.  Whoever takes a table
-- out, or drops a publication, silences changes; putting it back makes a new entry, so the loss shows
-- for as long as this table remembers the old one.
create table agent_internal.published (
    relation    regclass primary key,
    publication name not null,
    entry       oid not null
);
comment on table agent_internal.published is 'Tables as walagent put them into its publications';
comment on column agent_internal.published.entry is 'Of pg_publication_rel: another one means that somebody took the table out and put it back';

-- Remember how a table is published now, unless that was not ours to begin with.
--
-- Args: _was: the entry that it had before we altered anything, NULL if it had none.
create function agent_internal.record_published(_relation regclass, _was oid)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    insert into agent_internal.published as noted (relation, publication, entry)
    select r.prrelid, p.pubname, r.oid
      from pg_publication_rel r join pg_publication p on p.oid = r.prpubid
     where r.prrelid = _relation and p.pubname in ('walagent', 'walagent_inserts')
    on conflict (relation) do update
       set publication = excluded.publication, entry = excluded.entry
     where noted.entry = _was;
end;
$$;

-- Say, a sentence each, which publications do not send, or for a while did not send, what they must.
create function agent_internal.publication_trouble()
    returns setof text
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select distinct
           case when p.oid is null then format('there is no publication %I any more', n.publication)
                when r.oid is null then format('%s was taken out of publication %I', n.relation, n.publication)
                else format('publication %I was altered, and does not send what it must', n.publication) end
      from agent_internal.published n
           join pg_class c on c.oid = n.relation
           left join pg_publication p on p.pubname = n.publication
           left join pg_publication_rel r on r.oid = n.entry and r.prpubid = p.oid
     where (r.oid is null
            or not (p.pubinsert and p.pubviaroot)
            or to_jsonb(p) ->> 'pubgencols' <> 's'  -- from version 18 on
            or p.pubname = 'walagent' and not (p.pubupdate and p.pubdelete and p.pubtruncate))
       and (n.relation = 'agent.attachment'::regclass
            or exists (select from agent.attachment a where a.relation = n.relation))
     order by 1
$$;
comment on function agent_internal.publication_trouble() is 'Say what has become of our publications behind our back';

-- Put everything that is attached into the publications again, for a new slot to begin with.  What
-- was not sent until then is lost, which is for the caller to write down.
create function agent_internal.republish()
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _relation regclass;
begin
    perform agent_internal.repair_publications();
    delete from agent_internal.published;
    perform agent_internal.record_published('agent.attachment', null);
    for _relation in
        select distinct a.relation from agent.attachment a join pg_class c on c.oid = a.relation
    loop
        perform agent_internal.publish_relation(_relation);
        perform agent_internal.record_published(_relation, null);
    end loop;
end;
$$;
comment on function agent_internal.republish() is 'Mend the publications';

select agent_internal.republish();

-- Follow tables into a database that was restored from a dump: there they have the same names and
-- other numbers.  A table that was dropped and made again is no such case: its attachment still has
-- the number of the one that is gone.
--
-- Returns the attachments that go on.
create function agent_internal.adopt_tables()
    returns setof text
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _moved record;
begin
    for _moved in
        select a.id, a.name, a.relation::oid::bigint as relation_oid, a.definition -> 'relation_oid' as former
          from agent.attachment a join pg_class c on c.oid = a.relation
         where (a.definition ->> 'relation_oid')::bigint <> a.relation::oid::bigint
         order by a.id
    loop
        -- Runs that were begun stay with their version, so that has to know the table, too.
        update agent.attachment_version
           set definition = definition || jsonb_build_object('relation_oid', _moved.relation_oid)
         where attachment_id = _moved.id and definition -> 'relation_oid' = _moved.former;
        update agent.attachment set version = version + 1 where id = _moved.id;
        return next _moved.name;
    end loop;
end;
$$;
comment on function agent_internal.adopt_tables() is 'Let attachments go on in a database that was restored from a dump';

-- Give a slot up: write the gap down and fence its reader.  Dropping the slot comes after the commit;
-- who dies in between leaves that to whoever comes next.
--
-- Returns the gap, or NULL when another reader has taken the checkpoint over: then nothing is done.
create function agent_internal.abandon_slot(_slot text, _epoch bigint, _reason text)
    returns bigint
    language sql
as $$
    with held as (
        update agent.checkpoint
           set abandoned_at = agent_internal.now(), epoch = epoch + 1, updated_at = agent_internal.now()
         where slot = _slot and epoch = _epoch and abandoned_at is null
        returning slot, generation, end_lsn, committed_at
    )
    insert into agent.gap as g (slot, generation, from_lsn, to_lsn, since, reason)
    select slot, generation, end_lsn, pg_current_wal_lsn(), committed_at, _reason from held
    on conflict (slot, generation) where resolved_at is null do update set to_lsn = excluded.to_lsn
    returning g.id
$$;
comment on function agent_internal.abandon_slot(text, bigint, text) is 'Give a slot up that keeps too much WAL; called by its reader';

revoke all on function agent_internal.record_published(regclass, oid), agent_internal.publication_trouble(), agent_internal.republish(),
    agent_internal.adopt_tables(), agent_internal.abandon_slot(text, bigint, text) from public;
