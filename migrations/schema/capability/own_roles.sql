-- Who can act as a role that walagent uses: somebody who may create roles can have made it beforehand, and is its member since.

-- Whether a role is a superuser, or can act as the owner of walagent's schema, also by adding itself to its members.
create or replace function agent_internal.acts_as_owner(_role oid)
    returns boolean
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select exists (select from pg_namespace n
                    where n.nspname = 'agent_internal'
                      and (pg_has_role(_role, n.nspowner, 'usage') or pg_has_role(_role, n.nspowner, 'member with admin option')
                           or agent_internal.may_become(_role, pg_get_userbyid(n.nspowner))))
$$;
comment on function agent_internal.acts_as_owner(oid) is 'Whether a role can act as the owner of the schema';

-- Who can act as a role and not as the owner of walagent's schema: its members, and theirs, that can become it, have its rights or
-- can add members.  Not those that read the key with which walagent signs: they act as anybody.
--
-- Before PostgreSQL 16, everyone who may create roles can add members at any time.
--
-- Args: _is_named: an operator chose the role, so members that a superuser or the owner has added are meant, unless they can
-- add others.
-- Returns statement: what ends that.
create or replace function agent_internal.strange_members(_role name, _is_named boolean default false)
    returns table (member name, statement text)
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    with recursive edge as (
        select m.roleid, m.member, m.grantor, m.admin_option
          from pg_auth_members m
         where m.admin_option or coalesce((to_jsonb(m) ->> 'set_option')::boolean, true)
            or coalesce((to_jsonb(m) ->> 'inherit_option')::boolean, true)
    ), reached as (
        select e.member, e.member as direct
          from edge e join pg_roles r on r.oid = e.roleid
         where r.rolname = _role and (not _is_named or e.admin_option or not agent_internal.acts_as_owner(e.grantor))
           and not agent_internal.acts_as_owner(e.member)
           and (has_table_privilege(r.oid, 'agent_internal.secret', 'select')
                or not has_table_privilege(e.member, 'agent_internal.secret', 'select'))
        union
        select e.member, c.direct
          from reached c join edge e on e.roleid = c.member
         where not agent_internal.acts_as_owner(e.member)
    )
    select distinct m.rolname, s.statement
      from reached c join pg_roles m on m.oid = c.member
           cross join lateral (
               select string_agg(format('revoke %I from %I%s cascade', _role, d.rolname,
                                        case when current_setting('server_version_num')::integer >= 160000
                                             then format(' granted by %I', g.rolname) else '' end), '; ' order by g.rolname) as statement
                 from edge e join pg_roles r on r.oid = e.roleid join pg_roles d on d.oid = e.member
                      left join pg_roles g on g.oid = e.grantor
                where r.rolname = _role and e.member = c.direct) s
     order by 1
$$;
comment on function agent_internal.strange_members(name, boolean) is 'Who can act as a role, and not as the owner of the schema';

-- The roles of this database that are walagent's alone.  logs_in: whether it is a login.
create or replace function agent_internal.own_roles()
    returns table (role name, logs_in boolean)
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select r.rolname, r.rolname ~ '^walagent_(tools|rows)_'
      from pg_roles r, pg_database d
     where d.datname = current_database()
       and r.rolname in ('walagent_definer', 'walagent_console_' || d.oid, 'walagent_sync_' || d.oid,
                         'walagent_tools_' || d.oid, 'walagent_rows_' || d.oid)
     order by 1
$$;
comment on function agent_internal.own_roles() is 'The roles of this database that are walagent''s alone';

-- How others act as a role that is walagent's alone, and the statement that ends it.  What a login owns and may is checked
-- when it is used.
create or replace function agent_internal.role_trouble(_role name, _logs_in boolean default false)
    returns table (trouble text, statement text)
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select format('role "%s" can act as it', m.member), m.statement from agent_internal.strange_members(_role) m
     union all
    select format('it has %s', a.attribute), format('alter role %I no%s', _role, lower(a.attribute))
      from pg_roles r
           cross join lateral (values (r.rolcanlogin, 'LOGIN'), (r.rolsuper, 'SUPERUSER'), (r.rolcreaterole, 'CREATEROLE'),
                                      (r.rolcreatedb, 'CREATEDB'), (r.rolreplication, 'REPLICATION'),
                                      (r.rolbypassrls, 'BYPASSRLS')) as a (has, attribute)
     where r.rolname = _role and a.has and not _logs_in
     union all
    -- Who may call a function with its rights acts as it.
    select format('it owns %s', pg_describe_object(d.classid, d.objid, 0)),
           (select format('alter %s %s owner to current_user', i.type, i.identity)
              from pg_identify_object(d.classid, d.objid, 0) i)
      from pg_shdepend d join pg_roles r on d.refclassid = 'pg_authid'::regclass and d.refobjid = r.oid
     where r.rolname = _role and not _logs_in and d.deptype = 'o' and d.classid <> 'pg_default_acl'::regclass
       and d.dbid in (0, (select b.oid from pg_database b where b.datname = current_database()))
       and not (d.classid = 'pg_proc'::regclass
                and exists (select from pg_proc p join pg_namespace n on n.oid = p.pronamespace
                                   join pg_namespace i on i.nspname = 'agent_internal'
                             where p.oid = d.objid
                               and (n.nspname in ('agent', 'agent_internal', 'agent_signed', 'agent_call')
                                    or n.nspname ~ '^aos_' and n.nspowner = i.nspowner)))
     union all
    select format('PID %s is logged in as it', s.pid), format('select pg_terminate_backend(%s)', s.pid)
      from pg_stat_activity s join pg_roles r on r.oid = s.usesysid
     where r.rolname = _role and not _logs_in
$$;
comment on function agent_internal.role_trouble(name, boolean) is 'How others can act as a role that is walagent''s alone';

-- Raise 42501 if others can act as a role that is walagent's alone.
create or replace function agent_internal.check_own_role(_role name, _logs_in boolean default false)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _trouble   text;
    _statement text;
begin
    select t.trouble, t.statement into _trouble, _statement from agent_internal.role_trouble(_role, _logs_in) t limit 1;
    if found then
        raise exception 'role "%" is not walagent''s alone: %', _role, _trouble using errcode = '42501',
            hint = format('As a superuser, run %s; or, if nothing needs the role, drop role %I. Sessions that have set the role keep it until they end.',
                          _statement, _role);
    end if;
end;
$$;
comment on function agent_internal.check_own_role(name, boolean) is 'Check that nobody else can act as a role of walagent';
