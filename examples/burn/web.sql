-- What a page in a browser needs: a session, five views that it reads, and one function that it writes with.
--
-- Both act as the principal that is signed in.  Rules of threads are walagent's own: who is a member, who owns, who
-- writes in whose name.  Rules of Burn stand here, as domains and a trigger.

set search_path = burn, public;

create domain burn.username as text check (value ~ '^[a-z0-9_-]{2,16}$');
comment on domain burn.username is '2 to 16 letters, digits, _ or -';
-- Browsers load avatars; the server does not.
create domain burn.avatar as text check (value ~ '^https://(github\.com|avatars\.githubusercontent\.com)/[!-~]{1,200}$');
comment on domain burn.avatar is 'Address of a picture at GitHub';
create domain burn.title as text check (length(value) between 1 and 80 and value !~ '^\s|\s$|[[:cntrl:]]');
comment on domain burn.title is '1 to 80 characters without a space at either end';
create domain burn.message as text check (value ~ '\S' and length(value) <= 4000);
comment on domain burn.message is 'A text of up to 4,000 characters';

-- The producer stays: neither an owner nor the agent itself ends its membership, or changes its role.
create function burn.keep_producer()
    returns trigger
    language plpgsql
as $$
begin
    -- A thread that is deleted takes its members with it.
    if tg_op = 'DELETE' and not exists (select from agent.thread t where t.tenant = old.tenant and t.id = old.thread_id) then
        return old;
    end if;
    raise exception 'the producer "%" cannot be removed', old.principal using errcode = '42501',
        hint = 'Only comedians and users can be removed.';
end;
$$;
create trigger burn_producer_stays before delete on agent.member for each row
    when (old.role = 'producer') execute function burn.keep_producer();
create trigger burn_producer_keeps_role before update of role on agent.member for each row
    when (old.role = 'producer' and new.role <> old.role) execute function burn.keep_producer();

-- Views.  Row-level security decides about rows of other tenants; these conditions decide about threads of others, also
-- for a principal with a role that sees them all.

create view burn.mine with (security_invoker) as
select m.thread_id
  from agent.member m
 where m.tenant = (select agent.current_tenant()) and m.principal = (select agent.current_principal());
comment on view burn.mine is 'IDs of the threads that the caller is a member of';

create view burn.threads with (security_invoker) as
select t.id, t.title as name,
       case t.state when 'completed' then 'completed' when 'archived' then 'cancelled' else 'started' end as status,
       t.created_at at time zone 'UTC' as inserted_at, t.created_at at time zone 'UTC' as updated_at
  from agent.thread t
 where t.tenant = (select agent.current_tenant()) and t.id in (select thread_id from burn.mine);
comment on view burn.threads is 'Threads of the caller';

create view burn.memberships with (security_invoker) as
select m.id, m.role, m.thread_id, p.id as user_id,
       m.joined_at at time zone 'UTC' as inserted_at, m.joined_at at time zone 'UTC' as updated_at
  from agent.member m join agent.principal p on p.tenant = m.tenant and p.name = m.principal
 where m.tenant = (select agent.current_tenant()) and m.thread_id in (select thread_id from burn.mine);
comment on view burn.memberships is 'Memberships of the caller''s threads';

-- The author of an event was a member, so what somebody said is shown with a name after they left.
create view burn.users with (security_invoker) as
select p.id, p.name::text as name, case p.kind when 'agent' then 'agent' else 'human' end as type,
       p.metadata ->> 'avatar_url' as avatar_url,
       p.created_at at time zone 'UTC' as inserted_at, p.created_at at time zone 'UTC' as updated_at
  from agent.principal p
 where p.tenant = (select agent.current_tenant())
   and (p.name = (select agent.current_principal())
        or p.name in (select m.principal from agent.member m
                       where m.tenant = (select agent.current_tenant()) and m.thread_id in (select thread_id from burn.mine))
        or p.name in (select e.author from agent.event e
                       where e.tenant = (select agent.current_tenant()) and e.thread_id in (select thread_id from burn.mine)));
comment on view burn.users is 'The caller, and who is or was in one of its threads';

create view burn.events with (security_invoker) as
select e.id, e.type, e.data, e.thread_id, p.id as user_id, e.number::integer as number,
       e.created_at at time zone 'UTC' as inserted_at, e.created_at at time zone 'UTC' as updated_at
  from agent.event e join agent.principal p on p.tenant = e.tenant and p.name = e.author
 where e.tenant = (select agent.current_tenant()) and e.thread_id in (select thread_id from burn.mine);
comment on view burn.events is 'Events of the caller''s threads';

create view burn.facts with (security_invoker) as
select f.id, f.predicate, f.object, f.category, f.confidence::float8 as confidence, f.disputed, f.thread_id, f.source_event as source_event_id,
       f.tool_use_event as tool_use_event_id, p.id as subject_id,
       f.created_at at time zone 'UTC' as inserted_at, f.created_at at time zone 'UTC' as updated_at
  from agent.fact f join agent.principal p on p.tenant = f.tenant and p.name = f.subject
 where f.tenant = (select agent.current_tenant()) and f.thread_id in (select thread_id from burn.mine)
   and f.superseded_by is null and f.retracted_at is null;
comment on view burn.facts is 'Facts of the caller''s threads, without those that were replaced or retracted';

-- What its agents do: the turn of each that has not ended, if there is one.
create view burn.processes with (security_invoker) as
select m.id, m.thread_id, p.id as user_id, r.id::text as run,
       coalesce(r.state::text, 'idle') as state, r.attempt, r.error ->> 'reason' as reason,
       r.started_at at time zone 'UTC' as started_at, r.next_attempt_at at time zone 'UTC' as next_attempt_at
  from agent.member m
       join agent.principal p on p.tenant = m.tenant and p.name = m.principal and p.kind = 'agent'
       left join lateral (
           select r.*
             from agent.run r
            where r.tenant = m.tenant and r.kind = 'turn' and r.change #>> '{new,thread_id}' = m.thread_id::text
              and r.attachment_id in (select a.id from agent.attachment a where a.tenant = m.tenant and a.agent = m.principal)
              and r.state in ('pending', 'running', 'waiting_approval', 'waiting_retry', 'needs_review')
            order by r.id
            limit 1) r on true
 where m.tenant = (select agent.current_tenant()) and m.thread_id in (select thread_id from burn.mine);
comment on view burn.processes is 'Agents of the caller''s threads, with the turn that each has not ended';

-- All of it as one shape: browsers open six connections to a server, and each live shape holds one.
create view burn.page with (security_invoker) as
select 'users' as view, v.id, to_jsonb(v) as row from burn.users v
union all select 'threads', v.id, to_jsonb(v) from burn.threads v
union all select 'memberships', v.id, to_jsonb(v) from burn.memberships v
union all select 'events', v.id, to_jsonb(v) from burn.events v
union all select 'facts', v.id, to_jsonb(v) from burn.facts v
union all select 'processes', v.id, to_jsonb(v) from burn.processes v;
comment on view burn.page is 'The rows of the other views';

-- Open a thread with its cast, as the caller.
--
-- Args: membership: ID of the caller's membership.
create function burn.open_thread(id uuid, name burn.title, membership uuid default null)
    returns void
    language plpgsql
as $$
begin
    if exists (select from burn.threads t where t.id = open_thread.id) then
        return;  -- a client that repeats its request
    end if;
    perform agent.open_thread(open_thread.name, '{sarah,jerry,frankie}', open_thread.id, null, open_thread.membership);
    perform agent.add_member(open_thread.id, 'sarah', 'producer');
    perform agent.add_member(open_thread.id, 'jerry', 'comedian');
    perform agent.add_member(open_thread.id, 'frankie', 'comedian');
end;
$$;

-- Sign a user in.
--
-- There are no passwords.  A name belongs to the browser that used it first: who shows a token of its user, even one that
-- has expired, gets another one.
--
-- Returns: the user, and a token for 30 days, which is shown once.
-- Raises WA019 if the name belongs to somebody else; 23514 if name or avatar is invalid.
create function burn.sign_in(
    username burn.username, avatar_url burn.avatar default null, known_by text default null,
    out id uuid, out name text, out avatar text, out token text
)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _user agent.principal;
begin
    begin
        insert into agent.principal as p (tenant, name, metadata)
        values ('default', sign_in.username, jsonb_strip_nulls(jsonb_build_object('burn', true, 'avatar_url', sign_in.avatar_url)))
        on conflict on constraint principal_pkey do update set metadata = p.metadata || excluded.metadata
         where p.kind = 'user' and p.active and (p.metadata -> 'burn')::boolean
           and exists (select from agent.token t
                        where t.tenant = p.tenant and t.principal = p.name and t.revoked_at is null
                          and t.digest = sha256(convert_to(sign_in.known_by, 'utf8')))
        returning * into _user;
    exception when sqlstate 'WA020' then
        null;  -- an agent has the name
    end;
    if _user.name is null then
        raise exception 'the name "%" is taken', sign_in.username using errcode = 'WA019', hint = 'Choose another name.';
    end if;
    id := _user.id;
    name := _user.name;
    avatar := _user.metadata ->> 'avatar_url';
    token := 'wla_' || translate(encode(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()), 'base64'), '+/=', '-_');
    insert into agent.token (tenant, principal, label, digest, scopes, expires_at)
    values ('default', _user.name, 'burn', sha256(convert_to(token, 'utf8')), '{read,post}', agent_internal.now() + interval '30 days');
    perform agent.act_as(token);
    if not exists (select from agent.member m where m.tenant = 'default' and m.principal = _user.name) then
        perform burn.open_thread(gen_random_uuid(), 'Untitled thread 1');
    end if;
end;
$$;
comment on function burn.sign_in(burn.username, burn.avatar, text) is 'Sign a user in; a new one has a thread';

-- End a session.  Its token still shows whose name it is: the same browser can sign in again.
create function burn.sign_out(token text)
    returns void
    language sql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
    update agent.token t set expires_at = least(t.expires_at, agent_internal.now())
     where t.tenant = 'default' and t.label = 'burn' and t.digest = sha256(convert_to($1, 'utf8'))
$$;
comment on function burn.sign_out(text) is 'End the session of a token';

-- Apply what a page has changed, all or nothing, as the caller.
--
-- Args: mutations: of TanStack DB: type, syncMetadata.relation, modified; of an update changes, of one and of a deletion
-- original.
-- Raises 22023 for what can be changed by nobody; else as the functions that it calls.
create function burn.ingest(mutations jsonb)
    returns void
    language plpgsql
as $$
declare
    _mutation jsonb;
    _kind     text;
    _row      jsonb;
    _me       constant uuid := (select p.id from agent.principal p where p.tenant = agent.current_tenant() and p.name = agent.current_principal());
    _member   record;
begin
    if jsonb_typeof(mutations) is distinct from 'array' or jsonb_array_length(mutations) not between 1 and 100 then
        raise exception 'mutations must be an array of 1 to 100 elements' using errcode = '22023';
    end if;
    for _mutation in select jsonb_array_elements(mutations) loop
        -- The relation as the page sends it for an insert, or as the stream named it.
        _kind := concat_ws(' ', _mutation ->> 'type', regexp_replace(_mutation #>> '{syncMetadata,relation,-1}', '^burn-', ''));
        _row := case _mutation ->> 'type' when 'delete' then _mutation -> 'original' else _mutation -> 'modified' end;
        if _kind in ('insert events', 'insert memberships') and (_row ->> 'user_id')::uuid is distinct from _me then
            raise exception 'cannot write in the name of %', coalesce(_row ->> 'user_id', 'nobody') using errcode = '42501',
                hint = 'Use the ID of the user who is signed in.';
        end if;
        case _kind
            when 'insert threads' then
                perform burn.open_thread((_row ->> 'id')::uuid, _row ->> 'name', (
                    select (m #>> '{modified,id}')::uuid
                      from jsonb_array_elements(mutations) m
                     where m #>> '{modified,thread_id}' = _row ->> 'id' and m #>> '{modified,user_id}' = _me::text
                       and m #>> '{modified,role}' = 'owner'));
            when 'update threads' then
                if (_mutation -> 'changes') - 'name' - 'updated_at' <> '{}' then
                    raise exception 'only the name of a thread can be changed' using errcode = '22023';
                end if;
                perform agent.rename_thread((_mutation #>> '{original,id}')::uuid, (_mutation #>> '{changes,name}')::burn.title);
            when 'insert memberships' then
                -- Who opens a thread is its owner already; agent.join_thread() gives no other role than member.
                if not exists (select from burn.memberships m
                                where m.thread_id = (_row ->> 'thread_id')::uuid and m.user_id = _me
                                  and m.role = _row ->> 'role') then
                    perform agent.join_thread((_row ->> 'thread_id')::uuid, coalesce(_row ->> 'role', 'member'), (_row ->> 'id')::uuid);
                end if;
            when 'delete memberships' then
                select m.thread_id, m.principal into _member
                  from agent.member m
                 where m.tenant = agent.current_tenant() and m.thread_id in (select thread_id from burn.mine)
                   and m.id = (_row ->> 'id')::uuid;
                if not found then
                    raise exception 'membership % does not exist', _row ->> 'id' using errcode = 'WA019';
                end if;
                perform agent.remove_member(_member.thread_id, _member.principal);
            when 'insert events' then
                if _row ->> 'type' is distinct from 'text' or (_row -> 'data') - 'text' <> '{}' then
                    raise exception 'users post texts: expected type "text" and data {"text": ...}' using errcode = '42501';
                end if;
                perform agent.post((_row ->> 'thread_id')::uuid, (_row #>> '{data,text}')::burn.message, (_row ->> 'id')::uuid);
            else
                raise exception 'cannot apply "%"', _kind using errcode = '22023',
                    hint = 'Users insert threads, memberships and events, rename threads and delete memberships.';
        end case;
    end loop;
end;
$$;
comment on function burn.ingest(jsonb) is 'Apply changes of a page in one transaction';

-- Anyone may call these: what they read and write follows from who calls.  Only the daemon signs people in.
grant usage on schema burn to public;
grant select on burn.mine, burn.threads, burn.memberships, burn.users, burn.events, burn.facts, burn.processes, burn.page to public;
revoke all on function burn.sign_in(burn.username, burn.avatar, text), burn.sign_out(text) from public;
do $$
declare
    _runner name;
begin
    for _runner in select h.role from agent_internal.present_holders() h where h.capability = 'runner' loop
        execute format('grant execute on function burn.sign_in(burn.username, burn.avatar, text), burn.sign_out(text) to %I', _runner);
    end loop;
end;
$$;
reset search_path;
