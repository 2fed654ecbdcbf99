-- The tools of the agents, and when each of them is woken.

create schema burn;

-- The member of a thread with an ID that a model named.
create function burn.member_of(thread uuid, id uuid)
    returns name
    language plpgsql
    stable
as $$
declare
    _name name;
begin
    select p.name into _name
      from agent.principal p join agent.member m on m.tenant = p.tenant and m.principal = p.name
     where m.thread_id = member_of.thread and p.id = member_of.id and p.kind <> 'agent';
    if not found then
        raise exception 'subject % is not a user of this thread', member_of.id;
    end if;
    return _name;
end;
$$;

-- A tool that only speaks: its call is the event.

create function burn.ask_user_about_themselves(thread uuid, subject uuid, question text)
    returns void
    language plpgsql
as $$
begin
    perform burn.member_of(thread, subject);
end;
$$;
comment on function burn.ask_user_about_themselves is 'Ask a user a short, open question about themselves.';

create function burn.roast_user(thread uuid, subject uuid, roast text)
    returns void
    language plpgsql
as $$
begin
    perform burn.member_of(thread, subject);
    if length(roast) > 560 then
        raise exception 'the roast has % characters; at most 560 are allowed', length(roast);
    end if;
end;
$$;
comment on function burn.roast_user is 'Roast a user in at most three sentences, from facts about them.';

create type burn.fact as (
    source_event uuid, subject uuid, predicate text, object text, category text, confidence numeric, disputed boolean, replaces text
);
comment on column burn.fact.source_event is 'ID of the message that says it';
comment on column burn.fact.replaces is 'Object of the fact that this one corrects, if any';

create function burn.extract_facts(thread uuid, facts burn.fact[])
    returns void
    language plpgsql
as $$
declare
    _fact burn.fact;
    _old  uuid;
    _who  name;
begin
    foreach _fact in array facts loop
        _who := burn.member_of(thread, _fact.subject);
        select f.id into _old
          from agent.fact f
         where f.thread_id = extract_facts.thread and f.subject = _who and f.superseded_by is null and f.retracted_at is null
           and lower(f.predicate) = lower(_fact.predicate) and lower(f.object) = lower(_fact.replaces);
        if found then
            perform agent.correct_fact(_old, _fact.object, _fact.source_event, _fact.confidence);
        else
            perform agent.add_fact(extract_facts.thread, _who, _fact.predicate, _fact.object, coalesce(_fact.category, 'general'),
                                   coalesce(_fact.confidence, 0.8), _fact.source_event, coalesce(_fact.disputed, false));
        end if;
    end loop;
end;
$$;
comment on function burn.extract_facts is 'Store facts that a user said about themselves.';

-- When they are woken.  Each function is asked when a turn starts, with the number of the event that the agent has seen last.

create function burn.facts_of_best_known(thread uuid)
    returns bigint
    language sql
    stable
as $$
    select coalesce(max(n), 0)
      from (select count(*) as n from agent.fact f
             where f.thread_id = $1 and f.superseded_by is null and f.retracted_at is null
             group by f.subject) s
$$;

-- Sarah: for the last new message or event of a user; after facts were stored, while one of their subjects has fewer than three.
create function burn.wakes_sarah(thread uuid, seen bigint)
    returns boolean
    language sql
    stable
as $$
    select coalesce((
        select p.kind = 'user'
               or exists (select from jsonb_array_elements(e.data #> '{input,facts}') f
                           where (select count(*)
                                    from agent.fact k join agent.principal s on s.tenant = k.tenant and s.name = k.subject
                                   where k.thread_id = $1 and s.id::text = f ->> 'subject'
                                     and k.superseded_by is null and k.retracted_at is null) < 3)
          from agent.event e join agent.principal p on p.tenant = e.tenant and p.name = e.author
         where e.thread_id = $1 and e.number > $2
           and (p.kind = 'user' or e.type = 'tool_use' and e.data ->> 'name' = 'extract_facts')
         order by e.number desc
         limit 1), false)
$$;

-- A comedian: somebody is known well enough, the last joke was of the other one, and facts were stored since.
create function burn.wakes_comedian(thread uuid, me name, known integer, opens boolean)
    returns boolean
    language sql
    stable
as $$
    with calls as (
        select e.number, e.author, e.data ->> 'name' as name
          from agent.event e
         where e.thread_id = $1 and e.type = 'tool_use'
    ), joke as (
        select number, author from calls where name = 'roast_user' order by number desc limit 1
    )
    select burn.facts_of_best_known($1) >= known
       and coalesce((select author <> me from joke), opens)
       and exists (select from calls where name = 'extract_facts' and number > coalesce((select number from joke), 0))
$$;

create function burn.wakes_jerry(thread uuid, seen bigint)
    returns boolean
    language sql
    stable
as $$ select burn.wakes_comedian($1, 'jerry', 3, true) $$;

create function burn.wakes_frankie(thread uuid, seen bigint)
    returns boolean
    language sql
    stable
as $$ select burn.wakes_comedian($1, 'frankie', 4, false) $$;
